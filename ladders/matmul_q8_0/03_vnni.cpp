// Rung 3, as shipped for AVX-512: weights plus 128 by one xor, vpdpbusd, which never saturates, and the offset taken out by one vpdpwssd.
//
// Per 256 products of one row: 8 x (load and xor, product) and 8 more: 24 instructions.
// Prediction: one row 8 cycles in the cache, 2.2 ns; from memory as rung 2. 64 rows: as MXFP4's rung 6.
// Outcome:    4.0 to 5.0 ns in the cache on Zen 4, 11 to 13 from memory (21 to 25 GB/s). 64 rows 1.7 ns, as MXFP4.
#include "matmul_mxfp4/rung.h"

namespace {

void rung(const plumb::ladder::Problem& p, float* out) {
  using namespace plumb::kernels;
  plumb::ladder::run_shipped(Isa::avx512, {.out = host_ref(out), .in_q8 = host_ref<const std::byte>(p.in_q8.data()), .weight = p.weight_packed, .rows = p.rows});
}

}  // namespace

int main() {
  using namespace plumb::kernels;
  const auto isas = available_isas();
  if (std::find(isas.begin(), isas.end(), Isa::avx512) == isas.end()) {
    std::printf("this machine lacks avx512\n");
    return 0;
  }
  return plumb::ladder::run_rung("03_vnni", plumb::ladder::Activations::q8, rung, plumb::kernels::WeightFormat::q8_0);
}
