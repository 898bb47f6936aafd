// Rung 2, q8 activations as shipped for AVX2 (src/kernels/cpu/avx2/q8_block.h): vpmaddubsw wants unsigned weights, and an offset of 128 would saturate it, so the sign
// moves from the weight to the activation, and each product is widened at once.
//
// Per 256 products of one row: 8 x (load, abs, broadcast, sign, maddubs, madd, add) and 4 to scale: 60 instructions.
// Prediction: 12 cycles, 3.3 ns at 3.7 GHz; from memory (272 bytes, 27 GB/s) 10 ns: memory is the limit by far.
// Outcome:    5.4 ns in the cache on Zen 4 (20 cycles, not 12) and 11 from memory, 24 to 25 GB/s. 64 rows 4.3 ns: nothing but the load and the magnitude is shared.
#include "matmul_mxfp4/rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx2, ladder::Activations::q8>("02_avx2", kernels::WeightFormat::q8_0);
}
