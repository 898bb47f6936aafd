#include "text/vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace plumb::text {

void Vocabulary::set(std::int32_t id, std::string_view bytes) {
  PLUMB_CHECK(in_range(id));
  PLUMB_CHECK(blob_.size() + bytes.size() < UINT32_MAX && bytes.size() < (1U << 31));
  Span& span = spans_[static_cast<std::size_t>(id)];
  span.offset = static_cast<std::uint32_t>(blob_.size());
  span.length = static_cast<std::uint32_t>(bytes.size()) & 0x7FFFFFFFU;
  span.set = 1;
  blob_.append(bytes);
}

void Vocabulary::index(const std::vector<bool>& lookup) {
  PLUMB_CHECK(lookup.size() == spans_.size());
  slots_.assign(std::bit_ceil(std::max<std::size_t>(spans_.size() * 2, 16)), Slot{});
  longest_ = 0;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (!lookup[i] || spans_[i].set == 0) continue;
    const auto id = static_cast<std::int32_t>(i);
    const std::string_view key = bytes(id);
    const std::uint64_t hash = XXH3_64bits(key.data(), key.size());
    std::size_t at = (hash >> 32) & mask;
    bool duplicate = false;
    for (; slots_[at].id != kNone; at = (at + 1) & mask) {
      if (slots_[at].hash == static_cast<std::uint32_t>(hash) && bytes(slots_[at].id) == key) {
        duplicate = true;
        break;
      }
    }
    if (duplicate) continue;
    slots_[at] = {static_cast<std::uint32_t>(hash), id};
    longest_ = std::max(longest_, key.size());
  }
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  if (!in_range(id)) return {};
  const Span& span = spans_[static_cast<std::size_t>(id)];
  return std::string_view(blob_).substr(span.offset, span.length);
}

std::int32_t Vocabulary::find(std::string_view key) const {
  if (slots_.empty() || key.size() > longest_) return kNone;
  const std::uint64_t hash = XXH3_64bits(key.data(), key.size());
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = (hash >> 32) & mask; slots_[at].id != kNone; at = (at + 1) & mask) {
    if (slots_[at].hash == static_cast<std::uint32_t>(hash) && bytes(slots_[at].id) == key) return slots_[at].id;
  }
  return kNone;
}

}  // namespace plumb::text
