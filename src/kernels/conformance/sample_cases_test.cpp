// Shape cases of sample. Compiled into the test binary only.
#include <fmt/format.h>

#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {
namespace {

// Row r uses params[r % size] with its own seed. `levels` > 0: logits take that many values, so cuts fall among ties.
// `banned` of 16 tokens are masked, but never the first.
ShapeCase sample_case(const char* what, std::int32_t rows, std::int32_t vocab, std::int32_t levels,
                      const std::vector<SampleParams>& params, std::int32_t banned = 0) {
  const SampleArgs args{.out = given<std::int32_t>(),
                        .relay = given<std::int32_t>(),
                        .logits = given<const float>(),
                        .params = given<const SampleParams>(),
                        .relay_cells_of = given<const std::int32_t>(),
                        .relay_cells = rows + 2,
                        .vocab = vocab,
                        .rows = rows};
  return make_case(fmt::format("{} rows={} vocab={} levels={}", what, rows, vocab, levels), args, rows,
                   [levels, params, banned](const SampleArgs& a, Random& random) {
                     for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.vocab; ++i) {
                       writable(a.logits)[i] =
                           levels > 0 ? static_cast<float>(random.below(levels)) - 1.0F : random.value();
                       if (i % a.vocab != 0 && random.below(16) < banned) writable(a.logits)[i] = kBannedLogit;
                     }
                     for (std::int32_t r = 0; r < a.rows; ++r) {
                       SampleParams p = params[static_cast<std::size_t>(r) % params.size()];
                       p.seed = random.bits();
                       p.choice = r % 3;
                       p.position = random.below(131072);
                       writable(a.params)[r] = p;
                       writable(a.relay_cells_of)[r] = r % 4 == 3 ? -1 : r;
                     }
                   });
}

}  // namespace

std::vector<ShapeCase> sample_cases() {
  const SampleParams greedy{};
  const std::vector<SampleParams> drawn = {
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 5},
      {.temperature = 1.3F, .top_p = 0.8F},
      {.temperature = 1, .min_p = 0.1F},
      {.temperature = 0.9F, .top_p = 0.95F, .min_p = 0.02F, .top_k = 40},
      {.temperature = 1, .top_p = 1e-6F},  // only the largest
      {.temperature = 2, .top_k = 1},
      {.temperature = 5, .top_p = 0.999F, .top_k = 1000000},
      {.temperature = 0.05F, .top_p = 0.5F},
  };
  std::vector<ShapeCase> cases;
  for (const std::int32_t vocab : {1, 2, 7, 8, 130, 4096}) {
    cases.push_back(sample_case("greedy", 5, vocab, 0, {greedy}));
    cases.push_back(sample_case("greedy ties", 5, vocab, 3, {greedy}));
    cases.push_back(sample_case("drawn", 27, vocab, 0, drawn));
    cases.push_back(sample_case("drawn ties", 27, vocab, 4, drawn));
    cases.push_back(sample_case("all equal", 18, vocab, 1, drawn));
  }
  std::vector<SampleParams> hot = drawn;
  hot.push_back({.temperature = 1e38F});  // nearly all weights are 1, and those of banned tokens would be e^-3
  hot.push_back({.temperature = 1e38F, .top_k = 4000});
  for (const std::int32_t vocab : {7, 130, 4096}) {
    cases.push_back(sample_case("few left", 33, vocab, 0, hot, 15));
    cases.push_back(sample_case("half left, ties", 33, vocab, 3, hot, 8));
  }
  cases.push_back(sample_case("large", 9, 201088, 0, drawn));
  return cases;
}

}  // namespace plumb::kernels::conformance
