// Rung 1, the executable specification: one query head a task, eight lanes; a score is eight fused multiply-adds and a sum of lanes.
//
// One head shares nothing: each K and V vector is loaded for one multiply-add, so loads (two a cycle) and multiply-adds (two a cycle)
// are in balance at best, and the sum of eight lanes costs about ten instructions for eight multiply-adds.
// Prediction: a third of the floor, 13 G products a second.
// Outcome:    16/4 heads, spans of 128, 512, 2,048, 32,768: 14, 12, 8 and 1.6 G products a second; 64/8: 10, 10, 4. As predicted for the
//             short spans; the long ones read K and V once a head from further and further away. On Zen 4, quiet: 14, 15, 14 and 6.9; 13, 14, 14
//             and 8.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"01_serial", kernels::AttentionVariant::serial, kernels::Isa::avx2, kernels::KvFormat::f32});
}
