// The codes that attention over q8 pages multiplies (kernels/api/attention.h): whole numbers that stand for floats, and their scale.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct CodeScales {
  F32x8 inverse;  // code = x * inverse, rounded
  F32x8 scale;    // x = code * scale
};

// For magnitudes of which `largest` is the largest. What is too small becomes zeros.
inline CodeScales code_scales(F32x8 largest, int most) {
  const F32x8 smallest = splat(kQ8Smallest);
  const F32x8 codes = splat(static_cast<float>(most));
  return {if_less(largest, smallest, zero8(), codes / largest), if_less(largest, smallest, zero8(), largest / codes)};
}

// x to the nearest whole number, ties to the even one. |x| < 2^22; of others, any number.
inline std::int32_t nearest(float x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: a sum with it keeps no fraction, and its low bits are the number
  return std::bit_cast<std::int32_t>(x + kMagic) - std::bit_cast<std::int32_t>(kMagic);
}

// A query head to codes; their scale, NaN when an element is not finite.
inline float query_codes(const float* q, int head_dim, std::int16_t* codes) {
  F32x8 most = zero8();
  F32x8 check = zero8();  // stays 0 while all are finite
  for (int d = 0; d < head_dim; d += 8) {
    const F32x8 x = load8(q + d);
    most = max8(max8(x, zero8() - x), most);
    check = mul_add(x, zero8(), check);
  }
  const CodeScales scales = code_scales(splat(max_of(most)), kQueryCodes);
  float inverse[8], scale[8];
  store8(inverse, scales.inverse);
  store8(scale, scales.scale);
  for (int d = 0; d < head_dim; ++d) codes[d] = static_cast<std::int16_t>(nearest(q[d] * inverse[0]));
  return scale[0] + sum8(check);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
