// Rung 2: query heads of one KV head walk its keys together, row by row.
//
// Prediction: as for one row, since the keys of all 64 come from a cache: 25 G.
// Outcome:    8/2 heads 26 and 27 (21 in another run), 16/4 29 and 30, 64/8 29 and 31, 32/8 of 128 28 and 30 at spans of 256 and 2,048. Better than
//             predicted: half of the floor.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"02_grouped", kernels::AttentionVariant::grouped, kernels::Isa::avx2, kernels::KvFormat::f16}, ladder::kPrefill);
}
