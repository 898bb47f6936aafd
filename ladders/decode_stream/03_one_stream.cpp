// Rung 3: one group of rows after the other, so one stream of weights a worker instead of two that end every 4 KB.
//
// Prediction: a little more than rung 2, because prefetchers begin again at every new stream.
// Outcome:    81 to 85% (37.9 to 41.6 GB/s): far more than thought. A stream that ends every 4 KB costs more than an order that jumps.
#include "rung.h"

int main() { return plumb::ladder::run_rung("03_one_stream", plumb::ladder::Order::runs, plumb::ladder::stream_task<1, 0>); }
