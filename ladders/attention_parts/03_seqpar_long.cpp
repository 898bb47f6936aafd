// Rung 3: stretches of 2,048 keys are shared out; a worker merges the slices of its own.
//
// Prediction: a tenth more than rung 2 with sixteen workers at 32,768 keys; level with rung 1 with two.
// Outcome:    a first version gave each worker a run of neighbouring stretches of one head, so that none began cold: 7% to 10% behind rung 1 with
//             two workers on Zen 4. Handed out head by head instead, so that workers walk the same pages at the same time, stretches are
//             level with rung 1 with two workers, 2% to 28% ahead with one (36% in avx2), and with sixteen on the Xeon 23% ahead of rung 2 at 32,768
//             keys and 40% at 131,072. With eight KV heads and eight workers, a task each in rung 1, they are 12% to 27% ahead of it
//             from 8,192 keys on.
#include "rung.h"

int main(int argc, char** argv) {
  using enum plumb::kernels::AttentionVariant;
  return plumb::ladder::run_parts({grouped, seqpar, seqpar_long}, argc, argv);
}
