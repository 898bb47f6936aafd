// Rung 1: workers claim tasks of 64 outputs (35 KB of weights) one by one from a common counter; two groups of rows side by side.
//
// It is what evens out best: a worker that is late takes fewer. Both workers read neighbouring tasks in turn, each two streams of 4 KB.
// Prediction: reading is what takes time, so near the reading rate.
// Outcome:    45% of the reading rate (19.5 to 20.9 GB/s in three runs): it is the order that costs.
#include "rung.h"

int main() { return plumb::ladder::run_rung("01_claimed", plumb::ladder::Order::claimed, plumb::ladder::stream_task<2, 0>); }
