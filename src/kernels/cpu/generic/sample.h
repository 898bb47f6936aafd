// sample: no sort. What top_k and top_p keep is a prefix of the tokens in falling order of logit (ties: rising id), so it is
// described by its lowest logit and the last id that has it; that cut is found by three passes of a radix search over the bits
// of the logits, each summing into 2,048 buckets. Every pass skips eight tokens at a time that are below the cut so far.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rises with the float; -0 and +0 are one key, as they are one logit.
inline std::uint32_t ordered_key(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

inline float from_ordered_key(std::uint32_t key) {
  return std::bit_cast<float>((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

// What is kept: every token whose logit is above `value`, and those with exactly that logit up to id `last_id`. At first all but
// the banned ones.
struct Cut {
  float value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(kBannedLogit) - 1);  // the next float above it
  std::int32_t last_id = std::numeric_limits<std::int32_t>::max();

  bool keeps(float logit, std::int32_t id) const { return logit > value || (logit == value && id <= last_id); }
};

inline constexpr std::size_t kBuckets = 2048;

struct Logits {
  const float* x;
  std::int32_t count;
  float largest;
  float inverse_temperature;

  // exp((logit - largest) / temperature)
  F32x8 weights(F32x8 logits) const { return exp8((logits - splat(largest)) * splat(inverse_temperature)); }
};

// f(id, logit, weight) for every token that the cut keeps and whose logit is at least `from`, by id. Weights are 1 with `Count`.
template <bool Count, class F>
inline void each_kept(const Logits& l, const Cut& cut, float from, F&& f) {
  const F32x8 lowest = splat(from > cut.value ? from : cut.value);
  each8(0, l.count, [&](std::int64_t i, int n) {
    const F32x8 logits = load_n(l.x + i, n);
    if (n == 8 && !any_at_least(logits, lowest)) return;
    float weights[8];
    if (!Count) store8(weights, l.weights(logits));
    for (int j = 0; j < n; ++j) {
      const float logit = l.x[i + j];
      const auto id = static_cast<std::int32_t>(i + j);
      if (logit >= from && cut.keeps(logit, id)) f(id, logit, Count ? 1.0F : weights[j]);
    }
  });
}

// The smallest prefix of what `kept` keeps whose sum reaches `wanted`; a token counts 1 with `Count`, else its weight.
template <bool Count>
inline Cut smallest_prefix(const Logits& l, const Cut& kept, double wanted, double* buckets) {
  constexpr int kShifts[] = {21, 10, 0};
  constexpr int kBits[] = {11, 11, 10};
  std::uint32_t prefix = 0;  // the bits found so far, the rest 0: the smallest key that has them
  double above = 0;          // the sum of the tokens above every key that starts with them
  for (int pass = 0; pass < 3; ++pass) {
    const int shift = kShifts[pass];
    const std::uint32_t mask = (1U << kBits[pass]) - 1;
    std::memset(buckets, 0, (std::size_t{1} << kBits[pass]) * sizeof(double));
    const std::uint64_t high = std::uint64_t{prefix} >> (shift + kBits[pass]);
    const float from = pass == 0 ? kept.value : from_ordered_key(prefix);
    each_kept<Count>(l, kept, from, [&](std::int32_t, float logit, float weight) {
      const std::uint32_t key = ordered_key(logit);
      if (std::uint64_t{key} >> (shift + kBits[pass]) != high) return;
      buckets[(key >> shift) & mask] += static_cast<double>(weight);
    });
    std::uint32_t digit = mask;
    std::uint32_t lowest = mask;  // the lowest bucket with anything in it, should rounding leave the sum short of `wanted`
    for (;; --digit) {
      if (buckets[digit] > 0) lowest = digit;
      if (above + buckets[digit] >= wanted || digit == 0) break;
      above += buckets[digit];
    }
    if (above + buckets[digit] < wanted && lowest > digit) {
      digit = lowest;
      above -= buckets[digit];
    }
    prefix |= digit << shift;
  }
  // The last bucket's tokens share one logit: take them by id until the sum is reached.
  Cut cut{from_ordered_key(prefix), -1};
  each_kept<Count>(l, kept, cut.value, [&](std::int32_t id, float logit, float weight) {
    if (logit != cut.value || (cut.last_id >= 0 && above >= wanted)) return;
    above += static_cast<double>(weight);
    cut.last_id = id;
  });
  return cut;
}

// Tokens of one partial sum. In double: with many equal logits a set may reach top_p exactly, and the weights of all the other
// tokens, 1e-9 of the total, decide whether it does.
inline constexpr int kSumBlock = 64;

// masses[b] = the weight of block b's kept tokens whose weight is at least min_p. Returns their sum.
inline double block_masses(const Logits& l, const Cut& cut, float min_p, double* masses) {
  double total = 0;
  const F32x8 lowest = splat(cut.value);
  const F32x8 least = splat(min_p);
  for (std::int32_t first = 0; first < l.count; first += kSumBlock) {
    const std::int32_t last = (l.count - first < kSumBlock ? l.count - first : kSumBlock) + first;
    double mass = 0;
    if (last - first == kSumBlock && (last <= cut.last_id || first > cut.last_id)) {
      const bool ties = last <= cut.last_id;  // all of the block's ties are kept, or none
      F64Sums sum;
      for (std::int32_t i = first; i < last; i += 8) {
        const F32x8 logits = load8(l.x + i);
        if (!any_at_least(logits, lowest)) continue;
        F32x8 w = l.weights(logits);
        w = ties ? if_less(logits, lowest, zero8(), w) : if_less(lowest, logits, w, zero8());
        sum.add(if_less(w, least, zero8(), w));
      }
      mass = sum.total();
    } else {
      for (std::int32_t i = first; i < last; ++i) {
        const float w = exp1((l.x[i] - l.largest) * l.inverse_temperature);
        if (cut.keeps(l.x[i], i) && w >= min_p) mass += static_cast<double>(w);
      }
    }
    total += mass;
    masses[first / kSumBlock] = mass;
  }
  return total;
}

// The first kept token at which the running sum exceeds `target`.
inline std::int32_t token_at(const Logits& l, const Cut& cut, float min_p, const double* masses, double target) {
  const std::int32_t blocks = (l.count + kSumBlock - 1) / kSumBlock;
  double reached = 0;
  std::int32_t block = 0;
  std::int32_t last = 0;  // the last block with any weight: where rounding at the very end lands
  for (; block < blocks; ++block) {
    if (masses[block] > 0) last = block;
    if (reached + masses[block] > target) break;
    reached += masses[block];
  }
  if (block == blocks) block = last;
  std::int32_t token = kInvalidToken;
  for (std::int32_t i = block * kSumBlock; i < l.count && i < (block + 1) * kSumBlock; ++i) {
    const float w = exp1((l.x[i] - l.largest) * l.inverse_temperature);
    if (!cut.keeps(l.x[i], i) || w < min_p) continue;
    token = i;
    reached += static_cast<double>(w);
    if (reached > target) break;
  }
  return token;
}

// The largest logit, or NaN when one is not finite. maxima[b] is the largest of block b.
inline float largest_finite(const float* x, std::int32_t count, float* maxima) {
  F32x8 largest = splat(-std::numeric_limits<float>::infinity());
  F32x8 faults[2] = {zero8(), zero8()};  // two, so that an addition need not wait for the one before
  for (std::int32_t first = 0; first < count; first += kSumBlock) {
    const std::int32_t last = count - first < kSumBlock ? count : first + kSumBlock;
    F32x8 block[2] = {splat(x[first]), splat(x[first])};
    const auto take = [&](F32x8 v, int half) {
      faults[half] = faults[half] + (v - v);  // 0, or NaN for a NaN or an infinity
      block[half] = max8(block[half], v);
    };
    std::int32_t i = first;
    for (; i + 16 <= last; i += 16) {
      take(load8(x + i), 0);
      take(load8(x + i + 8), 1);
    }
    for (; i < last; ++i) take(splat(x[i]), 0);
    const F32x8 both = max8(block[0], block[1]);
    maxima[first / kSumBlock] = max_of(both);
    largest = max8(largest, both);
  }
  return max_of(largest) + sum8(faults[0] + faults[1]);
}

inline std::int32_t draw(const float* logits, std::int32_t vocab, const SampleParams& p, std::byte* scratch) {
  const std::int32_t blocks = (vocab + kSumBlock - 1) / kSumBlock;
  auto* buckets = reinterpret_cast<double*>(scratch);
  double* masses = buckets + kBuckets;
  auto* maxima = reinterpret_cast<float*>(masses + blocks);
  const float largest = largest_finite(logits, vocab, maxima);
  if (std::isnan(largest) || largest == kBannedLogit) return kInvalidToken;
  if (!(p.temperature > 0)) {
    std::int32_t block = 0;
    while (maxima[block] != largest) ++block;
    std::int32_t i = block * kSumBlock;
    while (logits[i] != largest) ++i;
    return i;
  }
  const Logits l{logits, vocab, largest, 1.0F / p.temperature};
  Cut cut;
  if (p.top_k > 0 && p.top_k < vocab) {
    // The k-th largest maximum of a block is not above the k-th largest logit: a first cut that leaves little to look at.
    if (p.top_k < blocks) {
      cut.value = smallest_prefix<true>({maxima, blocks, largest, l.inverse_temperature}, {}, p.top_k, buckets).value;
    }
    cut = smallest_prefix<true>(l, cut, p.top_k, buckets);
  }
  if (p.top_p < 1) {
    const double total = block_masses(l, cut, 0, masses);
    // Tokens with less than a vocab-th of what may be left out cannot be needed: all of them together are left out. The margin
    // of a hundredth covers the rounding of weights.
    const double spare = (1.0 - static_cast<double>(p.top_p)) * total / vocab;
    const auto least = static_cast<float>(static_cast<double>(largest) + p.temperature * (std::log(spare) - 0.01));
    Cut first = cut;
    if (least > cut.value) first = {least, std::numeric_limits<std::int32_t>::max()};
    cut = smallest_prefix<false>(l, first, static_cast<double>(p.top_p) * total, buckets);
  }
  const double total = block_masses(l, cut, p.min_p, masses);
  const float u = Philox{p.seed}.uniform(static_cast<std::uint32_t>(p.position), static_cast<std::uint32_t>(p.choice));
  return token_at(l, cut, p.min_p, masses, static_cast<double>(u) * total);
}

void sample(const SampleArgs& a, device::Worker& w) {
  static_assert(kBuckets * sizeof(double) + kMaxVocab / kSumBlock * (sizeof(double) + sizeof(float)) <=
                device::kWorkerScratchBytes);
  const bool faulted = w.fault().count != 0;
  for (std::int64_t r = w.claim(); r < a.rows; r = w.claim()) {
    std::int32_t token = kInvalidToken;
    if (!faulted) {
      token = draw(a.logits.get() + r * a.vocab, a.vocab, a.params[r], w.scratch().data());
      if (token == kInvalidToken) w.report(r, a.rows, device::FaultKind::non_finite, r);
    }
    a.out[r] = token;
    const std::int32_t cell = a.relay_cells_of[r];
    if (cell < 0) continue;
    if (w.index_in(cell, a.relay_cells > 0 ? a.relay_cells : 1, r) == cell && a.relay_cells > 0) a.relay[cell] = token;
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
