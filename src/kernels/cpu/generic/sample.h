// sample: no sort. What top_k and top_p keep is a prefix of the tokens in falling order of logit (ties: rising id), so it is
// described by its last logit and how many of the tokens that share it are in; that cut is found by three passes of a radix
// search over the bits of the logits, each summing into 2,048 buckets. A vocabulary of 201,088 takes a few passes of about 60
// microseconds each, whatever k and p are.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rises with the float; -0 and +0 are one key, as they are one logit.
inline std::uint32_t ordered_key(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// What is kept: every token with a key above `key`, and the first `ties` with exactly that key, by id.
struct Cut {
  std::uint32_t key = 0;
  std::int64_t ties = std::numeric_limits<std::int64_t>::max();
};

struct Logits {
  const float* x;
  std::int32_t count;
  float largest;
  float inverse_temperature;
};

// f(id, key, weight) for every token that the cut keeps, by id; weight = exp((logit - largest) / temperature).
template <class F>
inline void each_kept(const Logits& l, const Cut& cut, F&& f) {
  std::int64_t ties = 0;
  each8(0, l.count, [&](std::int64_t i, int n) {
    float weights[8];
    store8(weights, exp8((load_n(l.x + i, n) - splat(l.largest)) * splat(l.inverse_temperature)));
    for (int j = 0; j < n; ++j) {
      const std::uint32_t key = ordered_key(l.x[i + j]);
      if (key > cut.key || (key == cut.key && ties++ < cut.ties)) f(static_cast<std::int32_t>(i + j), key, weights[j]);
    }
  });
}

// The smallest prefix of what `kept` keeps whose sum reaches `wanted`; a token counts 1 with `count`, else its weight.
template <bool Count>
inline Cut smallest_prefix(const Logits& l, const Cut& kept, double wanted, double* buckets) {
  constexpr int kShifts[] = {21, 10, 0};
  constexpr int kBits[] = {11, 11, 10};
  std::uint32_t prefix = 0;  // the bits found so far
  double above = 0;          // the sum of the tokens above every key that starts with them
  double last = 0;           // of the last bucket
  for (int pass = 0; pass < 3; ++pass) {
    const int shift = kShifts[pass];
    const std::uint32_t mask = (1U << kBits[pass]) - 1;
    std::memset(buckets, 0, (std::size_t{1} << kBits[pass]) * sizeof(double));
    const std::uint64_t high = std::uint64_t{prefix} >> (shift + kBits[pass]);
    each_kept(l, kept, [&](std::int32_t, std::uint32_t key, float weight) {
      if (std::uint64_t{key} >> (shift + kBits[pass]) != high) return;
      buckets[(key >> shift) & mask] += Count ? 1.0 : static_cast<double>(weight);
    });
    std::uint32_t digit = mask;
    std::uint32_t lowest = mask;  // the lowest bucket with anything in it, should rounding leave the sum short of `wanted`
    for (;; --digit) {
      if (buckets[digit] > 0) lowest = digit;
      if (above + buckets[digit] >= wanted || digit == 0) break;
      above += buckets[digit];
    }
    if (above + buckets[digit] < wanted) {
      digit = lowest;
      above -= buckets[digit];
    }
    last = buckets[digit];
    prefix |= digit << shift;
  }
  // All of the last bucket share one logit.
  double each = 1;
  if (!Count) {
    const float logit = std::bit_cast<float>((prefix & 0x80000000U) != 0 ? prefix & 0x7FFFFFFFU : ~prefix);
    each = static_cast<double>(exp1((logit - l.largest) * l.inverse_temperature));
  }
  const double needed = each > 0 ? std::ceil((wanted - above) / each) : last;
  return {prefix, needed < 1 ? 1 : static_cast<std::int64_t>(needed)};
}

// The largest logit, or NaN when one is not finite.
inline float largest_finite(const float* x, std::int32_t count) {
  F32x8 largest = splat(-std::numeric_limits<float>::infinity());
  F32x8 faults = zero8();
  const auto take = [&](F32x8 v) {
    faults = faults + (v - v);  // 0, or NaN for a NaN or an infinity
    largest = max8(largest, v);
  };
  const std::int32_t whole = count / 8 * 8;
  for (std::int32_t i = 0; i < whole; i += 8) take(load8(x + i));
  for (std::int32_t i = whole; i < count; ++i) take(splat(x[i]));
  return max_of(largest) + sum8(faults);
}

inline std::int32_t draw(const float* logits, std::int32_t vocab, const SampleParams& p, double* buckets) {
  const float largest = largest_finite(logits, vocab);
  if (std::isnan(largest)) return kInvalidToken;
  if (!(p.temperature > 0)) {
    std::int32_t i = 0;
    while (logits[i] != largest) ++i;
    return i;
  }
  const Logits l{logits, vocab, largest, 1.0F / p.temperature};
  Cut cut;
  const auto total = [&] {
    double sum = 0;
    each_kept(l, cut, [&](std::int32_t, std::uint32_t, float weight) { sum += static_cast<double>(weight); });
    return sum;
  };
  if (p.top_k > 0 && p.top_k < vocab) cut = smallest_prefix<true>(l, cut, p.top_k, buckets);
  if (p.top_p < 1) cut = smallest_prefix<false>(l, cut, static_cast<double>(p.top_p) * total(), buckets);

  double sum = 0;
  each_kept(l, cut, [&](std::int32_t, std::uint32_t, float weight) {
    if (weight >= p.min_p) sum += static_cast<double>(weight);
  });
  const float u = Philox{p.seed}.uniform(static_cast<std::uint32_t>(p.position), static_cast<std::uint32_t>(p.choice));
  const double target = static_cast<double>(u) * sum;
  double reached = 0;
  std::int32_t token = kInvalidToken;
  std::int32_t last = kInvalidToken;
  each_kept(l, cut, [&](std::int32_t i, std::uint32_t, float weight) {
    if (weight < p.min_p) return;
    reached += static_cast<double>(weight);
    last = i;
    if (token == kInvalidToken && reached > target) token = i;
  });
  return token != kInvalidToken ? token : last;
}

void sample(const SampleArgs& a, device::Worker& w) {
  static_assert(2048 * sizeof(double) <= device::kWorkerScratchBytes);
  const bool faulted = w.fault().count != 0;
  for (std::int64_t r = w.claim(); r < a.rows; r = w.claim()) {
    std::int32_t token = kInvalidToken;
    if (!faulted) {
      token = draw(a.logits.get() + r * a.vocab, a.vocab, a.params[r], w.scratch_as<double>());
      if (token == kInvalidToken) w.report(r, a.rows);
    }
    a.out[r] = token;
    const std::int32_t cell = a.relay_cells_of[r];
    if (cell < 0) continue;
    if (w.index_in(cell, a.relay_cells > 0 ? a.relay_cells : 1) == cell && a.relay_cells > 0) a.relay[cell] = token;
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
