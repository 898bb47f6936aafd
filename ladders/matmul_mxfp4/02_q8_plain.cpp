// Rung 2: activations as signed bytes, weights as they are stored, one output at a time.
//
// vpmaddubsw wants an unsigned side, so the sign of the weight moves to the activation (vpsignb); vpmaddwd widens; each block is
// scaled and added in eight f32 lanes, which are added up at the end of the row.
// Per 256 products (eight outputs, one block): 8 x (2 loads, 2 masks, shift, insert, shuffle, abs, sign, maddubs, madd, convert, scale
// of two factors, fused multiply-add), about 110 instructions.
// Prediction: half of rung 1 for one row, 9 ns; 64 rows the same for each of them, for nothing is shared: slower than rung 1's panel.
// Outcome:    14 ns for one row, in the cache and from memory, and 14 ns for each of 64. Half of rung 1, as predicted, but not the 9 ns: the
//             scale of each output and block is a chain of its own (byte, shift, product, broadcast).
#include <immintrin.h>

#include "rung.h"

namespace {

using plumb::kernels::Q8Block;

float dot(const std::byte* row, const Q8Block* x, int blocks) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 sum = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b) {
    const std::byte* block = row + b * plumb::blocks::kMxfp4Bytes;
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 1));
    const __m256i nibbles = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(codes, 4), codes), _mm256_set1_epi8(15));
    const __m256i w = _mm256_shuffle_epi8(values, nibbles);
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x[b].codes));
    const __m256i products = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)), ones);
    const float scale = std::bit_cast<float>((static_cast<std::uint32_t>(block[0]) - 1) << 23) * x[b].scale;
    sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), _mm256_set1_ps(scale), sum);
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, sum);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void rung(const plumb::ladder::Problem& p, float* out) {
  for (std::int64_t n = 0; n < p.outputs; ++n) {
    const std::byte* row = p.stored.data() + n * p.weight.row_stride;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const Q8Block* x = plumb::kernels::q8_row(p.in_q8.data(), r, p.cols);
      out[r * p.outputs + n] = dot(row, x, p.blocks());
    }
  }
}

}  // namespace

int main() { return plumb::ladder::run_rung("02_q8_plain", plumb::ladder::Activations::q8, rung); }
