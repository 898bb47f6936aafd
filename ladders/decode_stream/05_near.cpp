// Rung 5: weights are asked for 4 KB before they are used, into the first-level cache, and the scales of the next group while one begins.
//
// Found the other way round: moe-1b's head, one stream of Q8_0, read no faster than MXFP4 although its arithmetic takes half as long, and reading
// alone without asking read faster than either.
// Prediction: what asking into the second level wastes on a Zen 4, a tenth.
// Outcome:    see docs/BENCHMARKS.md, "Decode from memory, step by step".
#include "rung.h"

int main() { return plumb::ladder::run_rung("05_near", plumb::ladder::Order::runs, plumb::ladder::near_task); }
