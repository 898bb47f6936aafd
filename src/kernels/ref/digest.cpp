#include <bit>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const DigestArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const auto bits = [&](std::int64_t i) -> std::uint64_t { return i < a.cols ? std::bit_cast<std::uint32_t>(a.in[r * a.cols + i]) : 0; };
    const std::int64_t words = (a.cols + 1) / 2;
    std::uint64_t folded = 0;
    for (std::int64_t lane = 0; lane < kDigestLanes; ++lane) {
      std::uint64_t h = 0;
      for (std::int64_t i = lane; i < words; i += kDigestLanes) h = digest_step(h, bits(2 * i) | bits(2 * i + 1) << 32);
      folded = digest_step(folded, h);
    }
    a.out[r] = folded;
  }
}

}  // namespace plumb::kernels
