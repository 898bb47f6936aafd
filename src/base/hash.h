// Content digests: fingerprints of tokens and logits, digests of models and oracles, the ledger's hash chain.
//
// XXH3 is fast (memory speed) and not cryptographic: it tells accidents apart, not attacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest128&) const = default;

  // 32 lower-case hexadecimal digits, high half first (the canonical XXH128 form).
  std::string hex() const;
};

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);  // XXH3 64
Digest128 hash128(std::span<const std::byte> bytes);                             // XXH3 128
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) {
  return hash64(std::as_bytes(std::span(text)), seed);
}
inline Digest128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text))); }

// XXH3 128 over a stream: the digest equals hash128 of all parts joined. Thread rule: one thread at a time.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  Digest128 digest() const;  // of everything so far; more may follow

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumb
