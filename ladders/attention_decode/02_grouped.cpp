// Rung 2: the query heads of a KV head walk its keys together, in tiles of four heads by two keys, and four heads by sixteen elements
// of a value: six loads for eight multiply-adds, and K and V come from memory once and not once a head.
//
// Prediction: multiply-adds are the limit, with a fifth lost to sums of lanes and the softmax: 30 G products a second; at 32,768 keys
// of 16/4 heads memory is (67 MB).
// Outcome:    16/4: 23, 20, 18 and 4.8; 64/8: 16, 23, 14 and 6.3. Twice rung 1, three times at 32,768 keys (67 MB), but not 30.
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"02_grouped", kernels::AttentionVariant::grouped, kernels::Isa::avx2, kernels::KvFormat::f32});
}
