// Rung 6: rung 4 by vectors of sixteen, in whole numbers (src/kernels/cpu/avx512/chunk_codes.h). What ships over q8 where AVX-512 is.
//
// Rung 4 widens each byte of a key to a float for one multiply-add a head: 24 of 66 instructions a key of four heads are conversions. vpdpbusd takes
// bytes as they are, sixty-four at once; queries and weights are two digits of a byte each, so there are half as many products as multiply-adds. Sixteen
// keys are transposed, so that lanes are keys and no lanes are added up; four shuffles a key, shared by all heads.
// Prediction: 66 instructions a key become 43; half as fast again as rung 4 by floats of AVX-512 (16/4 heads 30, 64/8 31 G products a second), more with
// more heads.
// Outcome:    on Zen 4, quiet, spans of 128, 512, 2,048, 32,768: 16/4 39, 45, 45 and 36 to 39; 64/8 48, 55, 55 and 40. From the cache as predicted, and 1.8
//             times with 64/8. A first form laid a whole chunk out before it multiplied and asked for keys 64 ahead while it did: as fast from the
//             cache, but it waited for memory while it laid out. Keys are now laid out by sixteens between the products.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"06_codes", kernels::AttentionVariant::grouped, kernels::Isa::avx512, kernels::KvFormat::q8});
}
