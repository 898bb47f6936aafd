// exp and what is made of it, over 8 lanes; exp also over the vectors of a set that has wider ones.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// x in every lane of a vector like the first.
inline F32x8 every(F32x8, float x) { return splat(x); }

// exp(r) of x = n ln 2 + r. `shifted` has n in its low bits.
template <class V>
inline V exp_fraction(V x, V& n, V& shifted) {
  const V magic = every(x, 12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer and leaves that in the low bits
  shifted = mul_add(x, every(x, 1.44269502F), magic);
  n = shifted - magic;
  V r = mul_add(n, every(x, -0.693359375F), x);
  r = mul_add(n, every(x, 2.12194442e-4F), r);
  V p = every(x, 1.3926250394433737e-3F);
  p = mul_add(p, r, every(x, 8.36323294788599e-3F));
  p = mul_add(p, r, every(x, 4.166655242443085e-2F));
  p = mul_add(p, r, every(x, 1.6666576266288757e-1F));
  p = mul_add(p, r, every(x, 0.5F));
  return mul_add(p * r, r, r) + every(x, 1.0F);
}

// exp(x) within 2 ulp (math_test.cpp walks the range). x = n ln 2 + r with |r| <= 0.347; exp(r) is a polynomial of degree 6
// fitted to 1.1e-8 relative, at Chebyshev points of that range. ln 2 is split so that n times the upper part is exact.
// Below -87.33 the result is 0 and not a subnormal: a term 38 decimal orders under the largest changes no sum here. Above
// 88.37 it is infinity (true overflow is at 88.72; nothing here may come near either). NaN gives NaN.
template <class V>
inline V exp_lanes(V x) {
  const V lowest = every(x, -87.33F);
  const V highest = every(x, 88.37F);
  const V clamped = min8(highest, max8(lowest, x));
  V n, shifted;
  const V p = exp_fraction(clamped, n, shifted);
  // Adding an exponent to a NaN's bits could make a number of it; clamped - clamped is 0, or the NaN again.
  V y = times_pow2(p, shifted) + (clamped - clamped);
  y = if_less(x, lowest, every(x, 0.0F), y);
  y = if_less(highest, x, every(x, std::numeric_limits<float>::infinity()), y);
  return y;
}
inline F32x8 exp8(F32x8 x) { return exp_lanes(x); }

// The same of what is not above 0, in fewer steps where a set has them.
inline F32x8 exp_not_above_one(F32x8 x) { return exp_lanes(x); }

inline float exp1(float x) {
  float lanes[8];
  store8(lanes, exp8(splat(x)));
  return lanes[0];
}

// x * sigmoid(scale * x). exp overflows to infinity for very negative x and the quotient is then -0.
inline F32x8 swish8(F32x8 x, F32x8 scale) {
  const F32x8 one = splat(1.0F);
  return x / (one + exp8(zero8() - scale * x));
}

// 1 - 2 / (exp(2x) + 1): the absolute error is about 1.2e-7, which is what a soft-capped score needs.
inline F32x8 tanh8(F32x8 x) {
  const F32x8 one = splat(1.0F);
  return one - splat(2.0F) / (exp8(x + x) + one);
}

// act(gate, up) of GluSpec.
inline F32x8 glu8(const GluSpec& spec, F32x8 gate, F32x8 up) {
  if (spec.kind == GluKind::silu) return swish8(gate, splat(1.0F)) * up;
  const F32x8 limit = splat(spec.limit);
  const F32x8 g = min8(limit, gate);
  const F32x8 u = max8(splat(-spec.limit), min8(limit, up));
  return swish8(g, splat(spec.alpha)) * (u + splat(1.0F));
}

// f(i, n) for the blocks [i, i + n) of [lo, hi): n is 8 except for the last.
template <class F>
inline void each8(std::int64_t lo, std::int64_t hi, F&& f) {
  std::int64_t i = lo;
  for (; i + 8 <= hi; i += 8) f(i, 8);
  if (i < hi) f(i, static_cast<int>(hi - i));
}
inline F32x8 load_n(const float* from, int n) { return n == 8 ? load8(from) : load_first(from, n); }
inline void store_n(float* to, F32x8 x, int n) {
  if (n == 8) {
    store8(to, x);
  } else {
    store_first(to, x, n);
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
