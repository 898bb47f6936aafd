#include "base/hash.h"

#include <xxhash.h>

#include "base/check.h"

namespace plumb {

std::string Digest128::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    const auto shift = static_cast<unsigned>(60 - 4 * i);
    text[i] = kDigits[(high >> shift) & 15];
    text[16 + i] = kDigits[(low >> shift) & 15];
  }
  return text;
}

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Digest128 hash128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { PLUMB_CHECK(xxh != nullptr && XXH3_128bits_reset(xxh) == XXH_OK); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  PLUMB_CHECK(XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

Digest128 Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace plumb
