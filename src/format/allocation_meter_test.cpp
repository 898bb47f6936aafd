#include "format/allocation_meter.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<std::size_t> g_live{0};
std::atomic<std::size_t> g_peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t live = g_live.fetch_add(::malloc_usable_size(memory)) + ::malloc_usable_size(memory);
  std::size_t peak = g_peak.load();
  while (live > peak && !g_peak.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

void released(void* memory) {
  if (memory == nullptr) return;
  g_live.fetch_sub(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// Replaces the global allocator of this test binary; the array forms call these. The form that does not throw would too, but a
// sanitizer's runtime has its own, whose memory std::stable_sort gives back with a plain delete.
void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete(void* memory, std::size_t) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { released(memory); }

namespace plumb::format {

std::size_t live_heap_bytes() { return g_live.load(); }
void reset_heap_peak() { g_peak.store(g_live.load()); }
std::size_t peak_heap_bytes() { return g_peak.load(); }

namespace {

TEST(AllocationMeter, SeesWhatAVectorTakes) {
  const std::size_t before = live_heap_bytes();
  reset_heap_peak();
  {
    std::vector<char> block(1 << 20);
    EXPECT_GE(live_heap_bytes(), before + (1 << 20));
  }
  EXPECT_EQ(live_heap_bytes(), before);
  EXPECT_GE(peak_heap_bytes(), before + (1 << 20));
  EXPECT_LT(peak_heap_bytes(), before + (2 << 20));
}

}  // namespace
}  // namespace plumb::format
