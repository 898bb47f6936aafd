// Rung 3: sixteen rows walk a chunk of keys together. It is found and converted to floats once for all of them.
//
// Conversions and walks of the page table are a tenth of rung 2.
// Prediction: a tenth more than rung 2, and more where keys do not fit the second-level cache.
// Outcome:    8/2 25 and 26, 16/4 28 and 29, 64/8 29 and 26, 32/8 28 and 29: no gain, and a seventh lost at 64/8 and 2,048, against the prediction. This
//             machine's second-level cache of 1 MB holds 2,048 keys of a head in f16 (512 KB); on Zen 3 (512 KB) tiles were ahead there
//             (docs/BENCHMARKS.md).
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"03_tiled", kernels::AttentionVariant::tiled, kernels::Isa::avx2, kernels::KvFormat::f16}, ladder::kPrefill);
}
