// The arms of the equality lattice.
#include "kernels/table.h"
#include "serve/conformance/lattice_run.h"

namespace plumb::conformance {
namespace {

// Bounds of what is not bit-equal. Rounded activations: five times the budget that docs/QUALITY.md sets for real text, since here are a few
// positions of made-up text, also of models that were never trained. Another instruction set computes the same sums in another order, in
// float32: rounding alone, unless activations are rounded to bytes, where the last bit of a float can move a byte by one.
constexpr double kActMean = 1e-2;
constexpr double kActMax = 0.5;
constexpr double kRoundingMean = 1e-8;
constexpr double kRoundingMax = 1e-6;
constexpr double kMovedByteMean = 1e-4;
constexpr double kMovedByteMax = 1e-2;

}  // namespace

EngineOptions lattice_base(const LatticeOptions& o) {
  EngineOptions e;
  e.threads = 1;
  e.act = o.act;
  e.loop = "standard";
  e.context = o.prompt + 2 * o.answer + 32;
  e.chunk_rows = 64;
  e.logit_rows = 256;
  e.max_requests = 1;
  e.prefix_cache = false;
  return e;
}

std::vector<Arm> lattice_arms(const LatticeOptions& o) {
  const EngineOptions base = lattice_base(o);
  std::vector<Arm> arms;
  const auto add = [&](const char* axis, std::string name, auto change) {
    Arm arm{.axis = axis, .name = std::move(name), .options = base};
    change(arm);
    arms.push_back(std::move(arm));
  };
  add("restart", "a new engine", [](Arm&) {});
  for (const std::int32_t n : {2, 4, 8}) {
    add("batch size", std::to_string(n) + " requests", [&](Arm& a) { a.after = n - 1, a.options.max_requests = n, a.options.context *= n; });
  }
  for (const std::int32_t place : {0, 2, 4}) {
    add("place in the batch", std::to_string(place + 1) + " of 5", [&](Arm& a) { a.before = place, a.after = 4 - place, a.options.max_requests = 5, a.options.context *= 5; });
  }
  for (const std::int32_t rows : {1, 7, 256}) {
    add("chunk split", std::to_string(rows) + (rows == 1 ? " row" : " rows"), [&](Arm& a) { a.options.chunk_rows = rows; });
  }
  add("prefill or decode", "the answer as part of a prompt", [](Arm& a) { a.start = Arm::Start::teacher; });
  const auto cached = [](Arm& a) { a.options.prefix_cache = true, a.options.cache_positions = 2048; };
  add("prefix", "warm: the same again", [&](Arm& a) { cached(a), a.start = Arm::Start::repeat; });
  add("prefix", "a branch of a longer text", [&](Arm& a) { cached(a), a.start = Arm::Start::branch; });
  add("prefix", "a branch, windows trimmed", [&](Arm& a) { cached(a), a.start = Arm::Start::branch, a.options.cache_window_pages = 0; });
  for (const char* loop : {"chained:1", "chained:4", "chained:16"}) {
    add("loop", loop, [&](Arm& a) { a.options.loop = loop; });
  }
  for (const char* loop : {"standard", "chained:4"}) {
    add("retraction", std::string("set back in between, ") + loop, [&](Arm& a) {
      a.options.loop = loop, a.options.max_requests = 2, a.options.context = 256, a.before = 1;
      a.pool_pages = (o.prompt + 1 + 15) / 16 + 2;  // the older request's third page is the one that is missing
    });
  }
  for (const std::int32_t n : {2, 3, 4}) {
    add("threads", std::to_string(n), [&](Arm& a) { a.options.threads = n; });
  }
  add("session", "saved, and restored by a new engine", [&](Arm& a) { cached(a), a.start = Arm::Start::session; });
  add("all at once", "chained:4, 3 of 6, chunks of 24, 2 threads, warm", [&](Arm& a) {
    cached(a), a.start = Arm::Start::repeat, a.before = 2, a.after = 3;
    a.options.loop = "chained:4", a.options.max_requests = 6, a.options.context *= 6, a.options.chunk_rows = 24, a.options.threads = 2;
  });
  const char* other = o.act == "q8" ? "f32" : "q8";
  add("activations", std::string(other) + " against " + o.act, [&](Arm& a) { a.options.act = other, a.exact = o.act == "q8", a.own_class = true, a.kl_bound = kActMean, a.kl_max_bound = kActMax; });
  if (kernels::best_isa() != kernels::Isa::portable) {
    add("instruction set", "portable", [&](Arm& a) {
      a.options.isa = "portable", a.own_class = true;
      a.kl_bound = o.act == "q8" ? kMovedByteMean : kRoundingMean;
      a.kl_max_bound = o.act == "q8" ? kMovedByteMax : kRoundingMax;
    });
  }
  return arms;
}

}  // namespace plumb::conformance
