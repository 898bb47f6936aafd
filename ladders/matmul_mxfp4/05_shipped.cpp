// Rung 5, as shipped for AVX2 (src/kernels/cpu/avx2/q8_block.h, generic/q8_product.h): up to eight rows of activations share the decoding of a
// block, which stays in registers; tasks of 64 outputs keep their weights in the cache while the rows of a prompt pass.
//
// Per 256 products of one of eight rows: 20 / 8 to decode, 8 x (broadcast, maddubs, add), 4 to widen and scale: 23 instructions and 10
// loads.
// Prediction: one row as rung 4. Of 64 rows each 23 / 4 = 6 cycles, or the loads at two a cycle, 5: 1.8 ns, near twice rung 4.
// Outcome:    one row as rung 4. 64 rows 3.2 ns each, 80 G products a second: 1.5 times rung 4, not 1.9. With eight rows the weights and the
//             sums are more than 16 registers, and the spilled ones are loads, of which two a cycle is the limit.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx2, ladder::Activations::q8>("05_shipped");
}
