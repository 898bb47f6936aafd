// Rung 6: two matrices, as gate and up are: a task takes half of its outputs from each. They lie apart.
//
// Prediction: worse than rung 5, as a stream that ends is one (rung 3); by how much is what the next rung is worth.
// Outcome:    see docs/BENCHMARKS.md, "Decode from memory, step by step".
#include "rung.h"

int main() { return plumb::ladder::run_rung("06_two_in_turn", plumb::ladder::Order::runs, plumb::ladder::near_task, plumb::ladder::Layout::apart); }
