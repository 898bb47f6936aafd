// Rung 1: a task is a KV head (attention_decode, rungs 3 and 5).
//
// Prediction: no more workers than KV heads are used; with two the memory is the limit, or arithmetic where many query heads share a key.
// Outcome:    so it is. At 32,768 keys, 16/4: two workers of Zen 4 23 to 24 GB/s, two of a Xeon 14, four 24, eight and sixteen 21 to 24 there.
#include "rung.h"

int main(int argc, char** argv) {
  using enum plumb::kernels::AttentionVariant;
  return plumb::ladder::run_parts({grouped}, argc, argv);
}
