// Rung 2: the slices of 256 keys are shared out, two tasks of neighbouring ones for each worker, and merged at the end.
//
// The merge is 128 slices of 4 to 8 heads at 32,768 keys, by as many workers as there are KV heads, from other cores' caches.
// Prediction: sixteen workers 3.5 times four on the Xeon (16/4): a tenth is lost in the merge. A few parts in a hundred slower with two.
// Outcome:    2.9 times. With one and two workers of Zen 4 level with rung 1 or up to 6% behind, the more the longer the span.
#include "rung.h"

int main(int argc, char** argv) {
  using enum plumb::kernels::AttentionVariant;
  return plumb::ladder::run_parts({grouped, seqpar}, argc, argv);
}
