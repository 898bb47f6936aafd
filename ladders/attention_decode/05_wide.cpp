// Rung 5: rung 3 by vectors of sixteen (src/kernels/cpu/avx512/chunk_heads.h). Two keys share a vector of scores, so that a score's sum is still
// that of eight lanes; sixteen values of a key are one vector. What ships where AVX-512 is.
//
// A key costs half the instructions. Where the multiply-adders are 256 bits wide (Zen 4) they do not get more done; loads, broadcasts and
// the sums of lanes halve.
// Prediction: a quarter more than rung 3 on Zen 4, and more where the units are 512 bits wide.
// Outcome:    16/4: 30, 32, 32 and 29; 64/8: 32, 33, 33 and 30 on Zen 4, quiet: 4% to 17% more than rung 3, not a quarter. The multiply-adds of a
//             key and head take 8 cycles there at best and it takes 14; a sixth of the time is the exponentials, still eight at a time.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"05_wide", kernels::AttentionVariant::grouped, kernels::Isa::avx512, kernels::KvFormat::f16});
}
