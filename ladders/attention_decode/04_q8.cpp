// Rung 4: rung 2 over signed bytes. Widening and converting are two instructions a vector, shared by four heads; the scale of a row
// multiplies a score and a probability, eight at a time, and not the elements.
//
// Prediction: a tenth slower than f16 in the cache, faster where memory is the limit.
// Outcome:    OUT
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung("04_q8", kernels::KvFormat::q8, [](const kernels::AttentionArgs& a) { ladder::run_kernel(kernels::AttentionVariant::grouped, a); });
}
