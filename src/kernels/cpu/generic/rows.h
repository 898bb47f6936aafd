// The small ops: one pass over rows, no weights.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

void gather(const GatherArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    const std::int64_t from = w.index_in(a.indices[r], a.in_rows, r);
    std::memcpy(a.out.get() + r * a.cols, a.in.get() + from * a.cols, static_cast<std::size_t>(a.cols) * 4);
  }
}

// A few rows: one worker.
void advance(const AdvanceArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.sequences[r] == -1) continue;
    const std::int64_t s = w.index_in(a.sequences[r], a.sequence_count, r);
    if (s == a.sequences[r]) a.lengths[s] = a.positions[r] + 1;
  }
}

// Two roundings for each edit, in every order of rows.
void edit_logits(const EditLogitsArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    const std::int32_t first = a.offsets[r];
    const std::int32_t last = a.offsets[r + 1];
    if (first == last) continue;
    if (first < 0 || last < first || last > a.edits_limit) {
      w.report(last, a.edits_limit, device::FaultKind::bad_index, r);
      continue;
    }
    for (std::int32_t i = first; i < last; ++i) {
      const LogitEdit& edit = a.edits[i];
      const std::int64_t token = w.index_in(edit.token, a.vocab, r);
      if (token != edit.token) continue;
      float& logit = a.logits[r * a.vocab + token];
      const float scaled = logit > 0 ? logit / edit.scale : logit * edit.scale;
      logit = scaled + edit.add;
    }
  }
}

void mask_logits(const MaskLogitsArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    const std::int32_t m = a.mask_of[r];
    if (m == -1) continue;
    const bool known = w.index_in(m, a.mask_count, r) == m;
    const std::uint32_t* mask = a.masks.get() + static_cast<std::int64_t>(known ? m : 0) * mask_words(a.vocab);
    float* logits = a.logits.get() + r * a.vocab;
    for (std::int32_t first = 0; first < a.vocab; first += 32) {
      const std::uint32_t word = known ? mask[first / 32] : 0;
      const std::int32_t n = a.vocab - first < 32 ? a.vocab - first : 32;
      for (std::int32_t i = 0; i < n; ++i) logits[first + i] = (word >> i & 1U) != 0 ? logits[first + i] : kBannedLogit;
    }
  }
}

// digest_step of four running hashes. Vectors of the compiler's: written lane by lane, gcc 12 goes through memory at each step.
typedef std::uint64_t Hashes4 __attribute__((vector_size(32)));
inline void digest_step4(Hashes4& h, const float* from) {
  Hashes4 words;
  std::memcpy(&words, from, sizeof words);
  h = (h ^ words) * kDigestFactor;
  h ^= h >> 32;
}

void digest(const DigestArgs& a, device::Worker& w) {
  static_assert(std::endian::native == std::endian::little);
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    const float* in = a.in.get() + r * a.cols;
    Hashes4 lanes[kDigestLanes / 4] = {};
    std::int64_t i = 0;
    for (; i + 2 * kDigestLanes <= a.cols; i += 2 * kDigestLanes) {
#pragma GCC unroll 4
      for (int v = 0; v < kDigestLanes / 4; ++v) digest_step4(lanes[v], in + i + 8 * v);
    }
    std::uint64_t h[kDigestLanes];
    std::memcpy(h, lanes, sizeof h);
    for (int lane = 0; i < a.cols; ++lane, i += 2) {
      std::uint64_t word = 0;
      std::memcpy(&word, in + i, i + 1 < a.cols ? 8 : 4);
      h[lane] = digest_step(h[lane], word);
    }
    std::uint64_t folded = 0;
    for (const std::uint64_t lane : h) folded = digest_step(folded, lane);
    a.out[r] = folded;
  }
}

void glu(const GluArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.cols, 64);
  each8(lo, hi, [&](std::int64_t i, int n) {
    store_n(a.out.get() + i, glu8(a.spec, load_n(a.gate.get() + i, n), load_n(a.up.get() + i, n)), n);
  });
}

// Four accumulators of 8 lanes, element i in accumulator i / 8 % 4; then sum8 of ((s0 + s1) + (s2 + s3)).
void rms_norm(const RmsNormArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.groups);
  for (std::int64_t g = lo; g < hi; ++g) {
    const float* in = a.in.get() + g * a.cols;
    float* out = a.out.get() + g * a.cols;
    F32x8 squares[4] = {zero8(), zero8(), zero8(), zero8()};
    each8(0, a.cols, [&](std::int64_t i, int n) {
      const F32x8 x = load_n(in + i, n);
      squares[i / 8 % 4] = mul_add(x, x, squares[i / 8 % 4]);
    });
    const float total = sum8((squares[0] + squares[1]) + (squares[2] + squares[3]));
    const F32x8 factor = splat(1.0F / std::sqrt(total / static_cast<float>(a.cols) + a.eps));
    each8(0, a.cols, [&](std::int64_t i, int n) {
      store_n(out + i, load_n(in + i, n) * factor * load_n(a.weight.get() + i, n), n);
    });
  }
}

void rope_table(const RopeTableArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.pairs, 8);
  for (std::int64_t i = lo; i < hi; ++i) {
    const float angle = static_cast<float>(a.positions[i / a.pairs]) * a.frequencies[i % a.pairs];
    a.out[2 * i] = static_cast<float>(std::cos(static_cast<double>(angle)) * a.concentration);
    a.out[2 * i + 1] = static_cast<float>(std::sin(static_cast<double>(angle)) * a.concentration);
  }
}

// `step` apart in a head: 1 and pairs for halves, 2 and 1 for adjacent. The compiler's vectors are good enough: a head is 32
// pairs, a thousandth of the layer's products.
void rope(const RopeArgs& a, device::Worker& w) {
  const std::int64_t step = a.pairing == RopePairing::halves ? 1 : 2;
  const std::int64_t partner = a.pairing == RopePairing::halves ? a.pairs : 1;
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.heads);
  for (std::int64_t h = lo; h < hi; ++h) {
    float* x = a.x.get() + h * a.head_dim;
    const float* table = a.table.get() + h / a.heads * a.pairs * 2;
    for (std::int64_t i = 0; i < a.pairs; ++i) {
      const float p = x[i * step];
      const float q = x[i * step + partner];
      x[i * step] = p * table[2 * i] - q * table[2 * i + 1];
      x[i * step + partner] = q * table[2 * i] + p * table[2 * i + 1];
    }
  }
}

// Insertion into a list of top_k, equal logits behind the ones already there, which have lower indices.
void route(const RouteArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    const float* logits = a.logits.get() + r * a.expert_count;
    std::int32_t best[kMaxTopK];
    int held = 0;
    for (std::int32_t e = 0; e < a.expert_count; ++e) {
      if (held == a.top_k && !(logits[e] > logits[best[held - 1]])) continue;
      int at = held < a.top_k ? held++ : held - 1;
      for (; at > 0 && logits[e] > logits[best[at - 1]]; --at) best[at] = best[at - 1];
      best[at] = e;
    }
    float weights[kMaxTopK];
    float total = 0;
    for (int c = 0; c < a.top_k; ++c) {
      weights[c] = exp1(logits[best[c]] - logits[best[0]]);
      total += weights[c];
    }
    for (int c = 0; c < a.top_k; ++c) {
      a.experts[r * a.top_k + c] = best[c];
      a.weights[r * a.top_k + c] = weights[c] / total;
    }
  }
}

// A counting sort by one worker: a few thousand pairs at most.
void moe_group(const MoeGroupArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  static_assert(sizeof(std::int32_t) * kMaxExperts <= device::kWorkerScratchBytes);
  auto* next = w.scratch_as<std::int32_t>();  // first the counts, then where each expert's next pair goes
  const std::int64_t pairs = std::int64_t{a.rows} * a.top_k;
  for (std::int32_t e = 0; e < a.expert_count; ++e) next[e] = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) ++next[w.index_in(a.experts[pair], a.expert_count, pair / a.top_k)];
  std::int32_t placed = 0;
  for (std::int32_t e = 0; e < a.expert_count; ++e) {
    const std::int32_t count = next[e];
    a.offsets[e] = placed;
    next[e] = placed;
    placed += count;
  }
  a.offsets[a.expert_count] = placed;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t e = a.experts[pair];
    a.order[next[e >= 0 && e < a.expert_count ? e : 0]++] = static_cast<std::int32_t>(pair);
  }
}

void moe_combine(const MoeCombineArgs& a, device::Worker& w) {
  const std::int64_t blocks = (std::int64_t{a.cols} + 63) / 64;
  const auto [lo, hi] = w.share(a.rows * blocks);
  for (std::int64_t b = lo; b < hi; ++b) {
    const std::int64_t r = b / blocks;
    const std::int64_t first = b % blocks * 64;
    const std::int64_t last = first + 64 < a.cols ? first + 64 : a.cols;
    float* x = a.x.get() + r * a.cols;
    const float* in = a.in.get() + r * a.top_k * a.cols;
    each8(first, last, [&](std::int64_t i, int n) {
      F32x8 sum = zero8();
      for (std::int64_t c = 0; c < a.top_k; ++c) {
        sum = mul_add(splat(a.weights[r * a.top_k + c]), load_n(in + c * a.cols + i, n), sum);
      }
      store_n(x + i, load_n(x + i, n) + sum, n);
    });
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
