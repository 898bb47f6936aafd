#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const GatherArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int64_t from = a.indices[r] >= 0 && a.indices[r] < a.in_rows ? a.indices[r] : 0;
    for (std::int64_t i = 0; i < a.cols; ++i) a.out[r * a.cols + i] = a.in[from * a.cols + i];
  }
}

}  // namespace plumb::kernels
