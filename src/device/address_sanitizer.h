// Telling the address sanitizer which bytes of an arena belong to nobody. Does nothing in other builds.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace plumb::device {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kUnderAddressSanitizer = true;
inline void forbid_access(const void* start, std::uint64_t bytes) { __asan_poison_memory_region(start, bytes); }
inline void allow_access(const void* start, std::uint64_t bytes) { __asan_unpoison_memory_region(start, bytes); }
#else
inline constexpr bool kUnderAddressSanitizer = false;
inline void forbid_access(const void*, std::uint64_t) {}
inline void allow_access(const void*, std::uint64_t) {}
#endif

}  // namespace plumb::device
