// Rung 3: rung 2 over f16 pages. vcvtph2ps runs beside the multiply-adds, two conversions for eight of them.
//
// Prediction: as rung 2 while the keys are in the cache, twice as fast where memory was the limit.
// Outcome:    16/4: 26, 25, 21 and 8.8; 64/8: 24, 23, 18 and 12. Not "as rung 2" but a little faster at every span, and 1.8 times at 32,768.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung("03_f16", kernels::KvFormat::f16, [](const kernels::AttentionArgs& a) { ladder::run_kernel(kernels::AttentionVariant::grouped, a); });
}
