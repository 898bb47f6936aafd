// Rung 1, the exact path as shipped: weights decoded to f32 in registers (pshufb looks up the doubled E2M1 value, then widened,
// converted and scaled), fused multiply-adds in eight lanes; with many rows a decoded panel is multiplied instead.
//
// Per 256 products: 64 conversions and scalings and 32 fused multiply-adds for one row; with a panel the multiply-adds alone.
// Prediction: about 200 instructions, 50 cycles at four a cycle, 16 ns. With 64 rows 32 multiply-adds at two a cycle: 16 cycles, 5 ns.
// Outcome:    28 ns for one row in the cache, 43 from memory; 6.4 ns with a panel. Conversion and scaling wait for each other more than
//             counted, and decode is far from what the memory gives: the format is bound by its decoding, not by its bytes.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx2, ladder::Activations::f32>("01_f32");
}
