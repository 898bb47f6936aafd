// Rung 4: rung 3 by vectors of sixteen. What ships where AVX-512 is.
//
// Prediction: as rung 5 of attention_decode: a quarter more.
// Outcome:    8/2 32 and 33, 16/4 32 and 33, 64/8 32 and 34, 32/8 of 128 37 and 37: 8% to 30% more than rung 3.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"04_wide", kernels::AttentionVariant::tiled, kernels::Isa::avx512, kernels::KvFormat::f16}, ladder::kPrefill);
}
