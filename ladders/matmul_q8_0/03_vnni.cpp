// Rung 3, as shipped for AVX-512: weights plus 128 by one xor, vpdpbusd, which never saturates, and the offset taken out by one vpdpwssd.
//
// Per 256 products of one row: 8 x (load and xor, product) and 8 more: 24 instructions.
// Prediction: one row 8 cycles in the cache, 2.2 ns; from memory as rung 2. 64 rows: as MXFP4's rung 6.
// Outcome:    4.0 to 5.0 ns in the cache on Zen 4, 11 to 13 from memory (21 to 25 GB/s). 64 rows 1.7 ns, as MXFP4.
#include "matmul_mxfp4/rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx512, ladder::Activations::q8>("03_vnni", kernels::WeightFormat::q8_0);
}
