// Rung 6: two matrices, as gate and up are: a task takes half of its outputs from each. They lie apart.
//
// Prediction: worse than rung 5, because a stream that ends is one (rung 3). What ships packs such matrices group by group (api/pack.h): rung 5.
// Outcome:    Zen 4: 91 to 94% (31.6 to 34.2 GB/s) beside rung 5's 98 to 100%.
#include "rung.h"

int main() { return plumb::ladder::run_rung("06_two_in_turn", plumb::ladder::Order::runs, plumb::ladder::near_task, plumb::ladder::Layout::apart); }
