// A counter-based random generator: the n-th number of a key is a pure function of (key, n).
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Sampling and synthetic weights use
// it so that a value depends on what it is for and not on the order in which values were drawn.
#pragma once

#include <array>
#include <cstdint>

namespace plumb {

struct Philox {
  std::uint64_t key = 0;

  // Four independent 32-bit words for the 128-bit counter (hi, lo).
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t lo, std::uint64_t hi = 0) const {
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(lo), static_cast<std::uint32_t>(lo >> 32),
                                   static_cast<std::uint32_t>(hi), static_cast<std::uint32_t>(hi >> 32)};
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
      c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }

  // Uniform in [0, 1) with 24 bits, exactly representable in float.
  constexpr float uniform(std::uint64_t lo, std::uint64_t hi = 0) const {
    return static_cast<float>(block(lo, hi)[0] >> 8) * 0x1.0p-24F;
  }
};

}  // namespace plumb
