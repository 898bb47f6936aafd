// Rung 3: eight outputs interleaved, so that each 32-bit lane belongs to one of them.
//
// Four activations are broadcast to all lanes (a load, no shuffle); the eight scales of a block are one vector; nothing is added
// across lanes. Signs still move to the activation, and every pair is still widened at once.
// Per 256 products: 4 loads, 20 to decode, 8 x (broadcast, abs, sign, maddubs, madd, add), 5 to scale: 8 loads + 65 instructions, of which
// 16 are multiplications.
// Prediction: 65 / 4 = 16 cycles, 5 ns for one row, whose weights then come at 27 GB/s: memory is the limit. 64 rows as fast as one.
// Outcome:    6.9 ns in the cache and for each of 64 rows, 9.6-11 ns from memory (12-14 GB/s by one thread): a third more than counted, the
//             instructions right, and memory nearly the limit.
#include <immintrin.h>

#include "rung.h"

namespace {

using plumb::kernels::Q8Block;

__m256i four(const std::int8_t* from) {
  std::int32_t codes;
  std::memcpy(&codes, from, sizeof codes);
  return _mm256_set1_epi32(codes);
}

void dot8(const std::byte* data, const std::byte* scales, const Q8Block* x, int blocks, float* out) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 total = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b) {
    __m256i sums = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 128 * b + 32 * v));
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256i nibbles = _mm256_and_si256(half == 0 ? codes : _mm256_srli_epi16(codes, 4), low);
        const __m256i w = _mm256_shuffle_epi8(values, nibbles);
        const __m256i q = _mm256_sign_epi8(four(x[b].codes + 16 * half + 4 * v), w);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), q), ones));
      }
    }
    const __m128i exponents = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales + 8 * b));
    const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(exponents), 23));
    total = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(x[b].scale)), scale, total);
  }
  _mm256_storeu_ps(out, total);
}

void rung(const plumb::ladder::Problem& p, float* out) {
  for (std::int64_t n = 0; n < p.outputs; n += 8) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const Q8Block* x = plumb::kernels::q8_row(p.in_q8.data(), r, p.cols);
      dot8(p.packed.data() + n * p.weight_packed.row_stride, p.packed_scales.data() + n * p.weight_packed.scale_row_stride, x, p.blocks(),
           out + r * p.outputs + n);
    }
  }
}

}  // namespace

int main() { return plumb::ladder::run_rung("03_rows8", plumb::ladder::Activations::q8, rung); }
