// Rung 3: rung 2 over f16 pages. vcvtph2ps runs beside the multiply-adds, two conversions for eight of them.
//
// Prediction: as rung 2 while the keys are in the cache, twice as fast where memory was the limit.
// Outcome:    16/4: 26, 25, 21 and 8.8; 64/8: 24, 23, 18 and 12. Not "as rung 2" but a little faster at every span, and 1.8 times at 32,768.
//             Since then the kernels ask for keys ahead, two chunks of 64 and one key at a time while others are multiplied. On Zen 4, quiet:
//             26, 31, 31 and 25; 31, 29, 29 and 27: the length of the text costs a fifth. (Asked for a whole chunk at once: 26, 27, 26 and 14; 31, 32,
//             31 and 19. A burst of 256 lines is waited for.)
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"03_f16", kernels::AttentionVariant::grouped, kernels::Isa::avx2, kernels::KvFormat::f16});
}
