// Rung 4: weights are asked for 16 KB before they are used, into the second-level cache.
// What shipped until rung 5; it asked for the scales too.
//
// A core's share of the memory, 30 GB/s at some 130 ns, is 4 KB in flight; the processor's own prefetchers stop at the end of a page.
// Prediction: the reading rate, less a tenth.
// Outcome:    91 to 97% (46.2 to 50.3 GB/s), as predicted or better.
#include "rung.h"

int main() { return plumb::ladder::run_rung("04_read_ahead", plumb::ladder::Order::runs, plumb::ladder::stream_task<1, 16 * 1024>); }
