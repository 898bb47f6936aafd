// Rung 5: weights are asked for 4 KB before they are used, into the first-level cache, and the scales of the next group while one begins.
//
// Found the other way round: moe-1b's head, one stream of Q8_0, read no faster than MXFP4 although its arithmetic takes half as long, and reading
// alone without asking read faster than either.
// Prediction (after trying it in the engine): what asking into the second level wastes on a Zen 4, a tenth.
// Outcome:    Zen 4, four runs of each rung in turn, reading alone 35 to 38 GB/s: 98 to 100% (35.2 to 37.1), where rung 4 has 89 to 91% and rung 3,
//             which asks for nothing, 94 to 96%. Zen 5, two cores of one complex: 36.8 to 39.4 GB/s, rung 4 38.6 to 39.9.
#include "rung.h"

int main() { return plumb::ladder::run_rung("05_near", plumb::ladder::Order::runs, plumb::ladder::near_task); }
