// Rung 1, the exact path as shipped: signed bytes widened, converted and scaled in registers; a decoded panel with many rows.
//
// Half of MXFP4's instructions to decode, for there is nothing to look up.
// Prediction: 10 ns for 256 products of one row. With a panel as MXFP4.
// Outcome:    14 ns in the cache on Zen 4, and 45 from memory: four rows at a time are four streams that no prefetcher follows. Asked for 16 KB ahead (dot.h), 18. 5.2 with a
//             panel. (MXFP4: 20 in the cache, 22 from memory.)
#include "matmul_mxfp4/rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx2, ladder::Activations::f32>("01_f32", kernels::WeightFormat::q8_0);
}
