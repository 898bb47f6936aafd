// vpdpbusd and vpdpwssd as AVX-512 encodes them: four bytes that go to all lanes are an operand in memory. Written as assembly, because gcc 12
// loads and spreads them by an instruction of its own; in a kernel that is all about counting instructions, that is a sixth of them.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

typedef std::int32_t FourCodes __attribute__((may_alias, aligned(1)));

// sums + the products of four unsigned bytes of w with the four signed ones at `codes`, in each lane; never saturates.
inline __m256i add_code_products(__m256i sums, __m256i w, const std::int8_t* codes) {
  asm("vpdpbusd %2%{1to8%}, %1, %0" : "+v"(sums) : "v"(w), "m"(*reinterpret_cast<const FourCodes*>(codes)));
  return sums;
}
inline __m512i add_code_products(__m512i sums, __m512i w, const std::int8_t* codes) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(w), "m"(*reinterpret_cast<const FourCodes*>(codes)));
  return sums;
}
// Likewise of all four bytes of two vectors. (Of the compiler's own, gcc 12 copies each sum before it adds to it.)
inline __m512i add_byte_products(__m512i sums, __m512i w, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(w), "v"(x));
  return sums;
}
// sums + the products of two signed words of w with two of x, in each lane.
inline __m256i add_word_products(__m256i sums, __m256i w, __m256i x) { return _mm256_dpwssd_epi32(sums, w, x); }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
