// Rung 4: rung 2 over signed bytes. Widening and converting are two instructions a vector, shared by four heads; the scale of a row
// multiplies a score and a probability, eight at a time, and not the elements.
//
// Prediction: a tenth slower than f16 in the cache, faster where memory is the limit.
// Outcome:    16/4: 21, 24, 19 and 8.6; 64/8: 22, 23, 22 and 13. A tenth slower than f16 at some spans and no faster at 32,768 keys of 16/4,
//             against the prediction: half the bytes bought nothing. The lines of scales were not asked for ahead then; they are since. On
//             Zen 4, quiet: 25, 30, 30 and 29; 30, 28, 28 and 27 to 30: as predicted.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"04_q8", kernels::AttentionVariant::grouped, kernels::Isa::avx2, kernels::KvFormat::q8});
}
