// Rung 6, as shipped for AVX-512 (src/kernels/cpu/avx512/wide_dot.h, avx_vnni/q8_block.h): vpdpbusd adds four products to a lane in one instruction, with the codes
// as an operand in memory. Many rows take sixteen outputs at a time; one or two take eight, in half vectors, in two chains of sums.
//
// Per 256 products of one row: 4 loads, 4 shifts, 8 masks, 8 look-ups, 9 products, 8 to scale: 42 instructions, 18 loads with those of the codes.
// Prediction: one row 18 / 2 = 9 cycles, 2.5 ns at 3.7 GHz, 54 GB/s: memory is the limit. 64 rows 9 instructions and 4 to scale for two blocks at one product a cycle
// (Zen 4): 5 cycles, 1.3 ns.
// Outcome:    3.8 ns in the cache and 4.4 to 5.1 from memory (27 to 31 GB/s) on Zen 4; rung 5 there 4.5 and 5.4. 64 rows 1.7 ns, rung 5 2.7. Whole vectors with two blocks
//             side by side had given 5.0 and 5.6 for one row: a shuffle for each product spread the codes over the halves. In half vectors 4.3 and 5.1; with two chains, and
//             the codes as operands, which gcc 12 had loaded one by one, what stands above.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_shipped_rung<kernels::Isa::avx512, ladder::Activations::q8>("06_vnni");
}
