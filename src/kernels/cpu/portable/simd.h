// Eight floats as two 4-lane vectors of the compiler: SSE2 on any x86-64, NEON on ARM. A multiply-add is two roundings, because
// a fused one would be a library call on a machine without it. Same names as avx2/simd.h. Included by kernel bodies only.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The register tile of the matrix product: 2 x 2 accumulators are 8 of the 16 registers of SSE2.
inline constexpr int kTileRows = 2;
inline constexpr int kTileOutputs = 2;

typedef float F32x4 __attribute__((vector_size(16)));

struct F32x8 {
  F32x4 lo, hi;
};

inline F32x8 load8(const void* from) {
  F32x8 x;
  std::memcpy(&x.lo, from, 16);
  std::memcpy(&x.hi, static_cast<const char*>(from) + 16, 16);
  return x;
}
inline void store8(float* to, F32x8 x) {
  std::memcpy(to, &x.lo, 16);
  std::memcpy(to + 4, &x.hi, 16);
}
inline F32x8 splat(float x) { return {F32x4{x, x, x, x}, F32x4{x, x, x, x}}; }
inline F32x8 zero8() { return splat(0); }

// The first n floats, the rest zero; reads nothing beyond them. 0 <= n <= 8.
inline F32x8 load_first(const float* from, int n) {
  float lanes[8] = {};
  for (int i = 0; i < n; ++i) lanes[i] = from[i];
  return load8(lanes);
}
inline void store_first(float* to, F32x8 x, int n) {
  float lanes[8];
  store8(lanes, x);
  for (int i = 0; i < n; ++i) to[i] = lanes[i];
}

inline F32x8 operator+(F32x8 a, F32x8 b) { return {a.lo + b.lo, a.hi + b.hi}; }
inline F32x8 operator-(F32x8 a, F32x8 b) { return {a.lo - b.lo, a.hi - b.hi}; }
inline F32x8 operator*(F32x8 a, F32x8 b) { return {a.lo * b.lo, a.hi * b.hi}; }
inline F32x8 operator/(F32x8 a, F32x8 b) { return {a.lo / b.lo, a.hi / b.hi}; }
// a * b + c
inline F32x8 mul_add(F32x8 a, F32x8 b, F32x8 c) { return a * b + c; }
// b where either is NaN.
inline F32x8 min8(F32x8 a, F32x8 b) { return {a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi}; }
inline F32x8 max8(F32x8 a, F32x8 b) { return {a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi}; }
// yes where a < b, no elsewhere (and where either is NaN).
inline F32x8 if_less(F32x8 a, F32x8 b, F32x8 yes, F32x8 no) {
  return {a.lo < b.lo ? yes.lo : no.lo, a.hi < b.hi ? yes.hi : no.hi};
}
// Is any lane of a at least b's? A NaN is not.
inline bool any_at_least(F32x8 a, F32x8 b) {
  const auto lo = a.lo >= b.lo;
  const auto hi = a.hi >= b.hi;
  const auto any = lo | hi;
  return (any[0] | any[1] | any[2] | any[3]) != 0;
}
// x * 2^n, exactly, for integral n with |n| <= 127 and x * 2^n normal. n is the low bits of `shifted` (generic/math.h).
inline F32x4 times_pow2(F32x4 x, F32x4 shifted) {
  // Unsigned: the sum of the bit patterns may pass the sign bit on lanes whose result is not used.
  typedef std::uint32_t U32x4 __attribute__((vector_size(16)));
  return reinterpret_cast<F32x4>(reinterpret_cast<U32x4>(x) + (reinterpret_cast<U32x4>(shifted) << 23));
}
inline F32x8 times_pow2(F32x8 x, F32x8 shifted) { return {times_pow2(x.lo, shifted.lo), times_pow2(x.hi, shifted.hi)}; }

// Running sums in double, in each lane.
struct F64Sums {
  double lanes[8] = {};

  void add(F32x8 x) {
    for (int i = 0; i < 4; ++i) {
      lanes[i] += static_cast<double>(x.lo[i]);
      lanes[4 + i] += static_cast<double>(x.hi[i]);
    }
  }
  double total() const {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  }
};

// ((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7)): the one order of a horizontal sum.
inline float sum8(F32x8 x) {
  return ((x.lo[0] + x.lo[1]) + (x.lo[2] + x.lo[3])) + ((x.hi[0] + x.hi[1]) + (x.hi[2] + x.hi[3]));
}
inline void sum8x4(F32x8 a, F32x8 b, F32x8 c, F32x8 d, float* out) {
  out[0] = sum8(a);
  out[1] = sum8(b);
  out[2] = sum8(c);
  out[3] = sum8(d);
}
inline float max_of(F32x8 x) {
  float m = x.lo[0];
  for (int i = 1; i < 4; ++i) m = x.lo[i] > m ? x.lo[i] : m;
  for (int i = 0; i < 4; ++i) m = x.hi[i] > m ? x.hi[i] : m;
  return m;
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
