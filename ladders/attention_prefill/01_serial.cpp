// Rung 1, the executable specification: every row and query head walks its keys alone, which are converted from f16 each time.
//
// Prediction: as for one row, a third of the floor: 64 rows share nothing.
// Outcome:    17 to 18 G products a second with heads of 64, 19 to 20 with heads of 128, at both spans. As predicted.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"01_serial", kernels::AttentionVariant::serial, kernels::Isa::avx2, kernels::KvFormat::f16}, ladder::kPrefill);
}
