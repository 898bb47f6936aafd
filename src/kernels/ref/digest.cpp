#include <cstring>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const DigestArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    std::uint64_t folded = 0;
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      std::uint64_t h = 0;
      for (std::int64_t i = lane; i < a.cols; i += 8) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &a.in[r * a.cols + i], 4);
        h = digest_step(h, bits);
      }
      folded = digest_step(folded, h);
    }
    a.out[r] = folded;
  }
}

}  // namespace plumb::kernels
