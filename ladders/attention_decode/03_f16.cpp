// Rung 3: rung 2 over f16 pages. vcvtph2ps runs beside the multiply-adds, two conversions for eight of them.
//
// Prediction: as rung 2 while the keys are in the cache, twice as fast where memory was the limit.
// Outcome:    OUT
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung("03_f16", kernels::KvFormat::f16, [](const kernels::AttentionArgs& a) { ladder::run_kernel(kernels::AttentionVariant::grouped, a); });
}
