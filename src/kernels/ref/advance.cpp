#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const AdvanceArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int32_t s = a.sequences[r];
    if (s >= 0 && s < a.sequence_count) a.lengths[s] = a.positions[r] + 1;
  }
}

}  // namespace plumb::kernels
