#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const EditLogitsArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int32_t first = a.offsets[r];
    const std::int32_t last = a.offsets[r + 1];
    if (first < 0 || last < first || last > a.edits_limit) continue;
    for (std::int32_t i = first; i < last; ++i) {
      const LogitEdit& edit = a.edits[i];
      if (edit.token < 0 || edit.token >= a.vocab) continue;
      float& logit = a.logits[r * a.vocab + edit.token];
      const double l = logit > 0 ? static_cast<double>(logit) / edit.scale : static_cast<double>(logit) * edit.scale;
      logit = static_cast<float>(l + static_cast<double>(edit.add));
    }
  }
}

}  // namespace plumb::kernels
