// Shape cases of gated_delta. Compiled into the test binary only.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {
namespace {

struct DeltaShape {
  std::int32_t heads;
  std::int32_t key_dim;
  std::int32_t value_dim;
  bool rates;
  std::vector<std::int32_t> sequences;  // by row
};

// Sums of one column over the keys, of what the bound needs.
struct Column {
  double answer = 0, answer_terms = 0;  // sum of alpha S k', and of its magnitudes
  double out = 0, out_terms = 0;
  double before = 0, after = 0;  // squares of alpha S and of the new S
};

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// How far a column of the state may be from the reference is followed in the 2-norm, because there the rule cannot enlarge it:
// alpha (I - beta k' k'^T) has norm alpha at most. Each row adds its own rounding. A sum over the keys is off by (keys + 4) u of
// its terms; an inverse length by half the error of its sum of squares, a root and a division; alpha and beta are rounded once.
class DeltaBounds {
 public:
  explicit DeltaBounds(const GatedDeltaArgs& a) : a_(a), cells_(std::int64_t{a.key_dim} * a.value_dim) {
    const float* state = reinterpret_cast<const float*>(a.state.get());
    state_.assign(state, state + std::int64_t{a.slots} * a.heads * cells_);
    errors_.resize(static_cast<std::size_t>(std::int64_t{a.slots} * a.heads * a.value_dim));
  }

  std::vector<Bound> run() {
    for (std::int64_t r = 0; r < a_.rows; ++r) {
      for (std::int32_t h = 0; h < a_.heads; ++h) row(r, h);
    }
    Bound state{"state", {}};
    for (std::int64_t head = 0; head < std::int64_t{a_.slots} * a_.heads; ++head) {
      for (std::int64_t i = 0; i < cells_; ++i) {
        state.absolute.push_back(errors_[static_cast<std::size_t>(head * a_.value_dim + i % a_.value_dim)]);
      }
    }
    return {out_, state};
  }

 private:
  std::vector<double> unit(const float* x) const {
    double squares = 0;
    for (std::int32_t i = 0; i < a_.key_dim; ++i) squares += double{x[i]} * x[i];
    std::vector<double> out(x, x + a_.key_dim);
    for (double& value : out) value /= std::sqrt(squares + kKeyNormEps);
    return out;
  }

  void row(std::int64_t r, std::int32_t h) {
    const std::int64_t at = r * a_.heads + h;
    const std::vector<double> k = unit(a_.k.get() + at * a_.key_dim);
    const std::vector<double> q = unit(a_.q.get() + at * a_.key_dim);
    const double alpha = std::exp(-(a_.rates ? a_.rates[h] : 1.0) * softplus(a_.decay[at]));
    const double beta = 1 / (1 + std::exp(-double{a_.beta[at]}));
    const std::int64_t head = a_.state_slots[a_.sequences[r]] * a_.heads + h;
    const double sum = (a_.key_dim + 4) * kU;
    const double length = dot_bound(a_.key_dim) / 2 + 3 * kU;
    for (std::int64_t j = 0; j < a_.value_dim; ++j) {
      double* state = state_.data() + head * cells_ + j;
      double& error = errors_[static_cast<std::size_t>(head * a_.value_dim + j)];
      Column c;
      each_key([&](std::size_t i, std::int64_t cell) {
        const double before = alpha * state[cell];
        c.answer += before * k[i];
        c.answer_terms += std::fabs(before * k[i]);
        c.before += before * before;
      });
      const double v = a_.v[at * a_.value_dim + j];
      const double move = beta * (v - c.answer);
      each_key([&](std::size_t i, std::int64_t cell) {
        state[cell] = static_cast<float>(alpha * state[cell] + k[i] * move);
        c.out += state[cell] * q[i];
        c.out_terms += std::fabs(state[cell] * q[i]);
        c.after += state[cell] * state[cell];
      });
      const double move_error = beta * (sum * c.answer_terms + (length + 3 * kU) * std::fabs(c.answer)) +
                                (length + 6 * kU) * beta * (std::fabs(v) + std::fabs(c.answer));
      error = alpha * error + move_error + length * std::fabs(move) +
              4 * kU * (std::sqrt(c.before) + std::fabs(move) + std::sqrt(c.after)) + 1e-37;
      out_.absolute.push_back(error + sum * c.out_terms + (length + 3 * kU) * std::fabs(c.out) + 1e-37);
    }
  }
  template <class F>
  void each_key(F&& f) const {
    for (std::int64_t i = 0; i < a_.key_dim; ++i) f(static_cast<std::size_t>(i), i * a_.value_dim);
  }

  const GatedDeltaArgs& a_;
  std::int64_t cells_;             // of one head
  std::vector<double> state_;      // as the args have it
  std::vector<double> errors_;     // [slots][heads][value_dim], the 2-norm over the keys
  Bound out_{"out", {}};
};

ShapeCase delta_case(const char* what, const DeltaShape& s) {
  const auto rows = static_cast<std::int32_t>(s.sequences.size());
  const std::int32_t used = *std::max_element(s.sequences.begin(), s.sequences.end()) + 1;
  GatedDeltaArgs args{.out = given<float>(),
                      .state = given<std::byte>(),
                      .q = given<const float>(),
                      .k = given<const float>(),
                      .v = given<const float>(),
                      .decay = given<const float>(),
                      .beta = given<const float>(),
                      .sequences = given<const std::int32_t>(),
                      .state_slots = given<const std::int32_t>(),
                      .sequence_count = used + 1,  // one that no row names and that holds no slot
                      .slots = used + 2,
                      .heads = s.heads,
                      .key_dim = s.key_dim,
                      .value_dim = s.value_dim,
                      .rows = rows};
  if (s.rates) args.rates = given<const float>();
  ShapeCase c = make_case(
      fmt::format("{}: rows={} heads={} key_dim={} value_dim={}{}", what, rows, s.heads, s.key_dim, s.value_dim, s.rates ? " rates" : ""),
      args, rows, [sequences = s.sequences](const GatedDeltaArgs& a, Random& random) {
        const std::int64_t heads = std::int64_t{a.rows} * a.heads;
        random.values(writable(a.q), heads * a.key_dim);
        random.values(writable(a.k), heads * a.key_dim);
        random.values(writable(a.v), heads * a.value_dim);
        // Memories of a few rows up to thousands, and gates at both ends.
        const float decays[] = {-3, -2, 0, 2, -8, -100, 40};
        for (std::int64_t i = 0; i < heads; ++i) {
          writable(a.decay)[i] = decays[i % 7] + 0.1F * random.value();
          writable(a.beta)[i] = i % 5 == 4 ? 30 * random.value() : random.value();
        }
        if (a.rates) {
          for (std::int32_t h = 0; h < a.heads; ++h) writable(a.rates)[h] = h == 1 ? 16.0F : 0.05F * static_cast<float>(1 + h);
        }
        // Slots in a random order, all of them with a history; two belong to nobody here.
        random.values(reinterpret_cast<float*>(a.state.get()), std::int64_t{a.slots} * a.heads * a.key_dim * a.value_dim);
        std::vector<std::int32_t> slots(static_cast<std::size_t>(a.slots));
        std::iota(slots.begin(), slots.end(), 0);
        for (std::size_t i = slots.size(); i > 1; --i) {
          std::swap(slots[i - 1], slots[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(i)))]);
        }
        std::copy_n(slots.begin(), a.sequence_count - 1, writable(a.state_slots));
        writable(a.state_slots)[a.sequence_count - 1] = kNoStateSlot;
        std::copy(sequences.begin(), sequences.end(), writable(a.sequences));
      });
  set_bounds<GatedDeltaArgs>(c, [](const GatedDeltaArgs& a) { return DeltaBounds(a).run(); });
  std::vector<std::int32_t> distinct = s.sequences;
  std::sort(distinct.begin(), distinct.end());
  c.rows_independent = std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end();
  return c;
}

}  // namespace

std::vector<ShapeCase> gated_delta_cases() {
  std::vector<ShapeCase> cases;
  for (const DeltaShape& s : std::initializer_list<DeltaShape>{
           {1, 8, 8, false, {0}},
           {2, 16, 16, true, {0, 2, 1}},
           {3, 24, 40, true, {3, 1}},
           {1, 1, 1, false, {0, 1}},
           {2, 7, 13, true, {1, 0}},       // no whole vector of keys, a tail of values
           {2, 128, 128, true, {0, 1, 3}},  // two tasks for each head
           {1, 64, 100, false, {0}},
           {1, 256, 512, true, {0}},
       }) {
    cases.push_back(delta_case("one row each", s));
  }
  cases.push_back(delta_case("prompt", {2, 16, 32, true, std::vector<std::int32_t>(60)}));
  cases.push_back(delta_case("prompt", {2, 33, 72, false, std::vector<std::int32_t>(9, 1)}));
  cases.push_back(delta_case("mixed", {3, 16, 24, true, {1, 0, 0, 2, 1, 0, 1, 1}}));
  return cases;
}

}  // namespace plumb::kernels::conformance
