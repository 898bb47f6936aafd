#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const MaskLogitsArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int32_t m = a.mask_of[r];
    if (m == -1) continue;
    for (std::int32_t t = 0; t < a.vocab; ++t) {
      const bool known = m >= 0 && m < a.mask_count;
      const bool allowed = known && (a.masks[static_cast<std::int64_t>(m) * mask_words(a.vocab) + t / 32] >> (t % 32) & 1U) != 0;
      if (!allowed) a.logits[r * a.vocab + t] = kBannedLogit;
    }
  }
}

}  // namespace plumb::kernels
