#include "device/cpu/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "device/address_sanitizer.h"

namespace plumb::device {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

}  // namespace

Result<Arena> Arena::map(std::uint64_t bytes) {
  if (bytes == 0) return Arena();
  const bool huge = bytes >= kHugePage;
  if (bytes > UINT64_MAX / 2) {
    return fail(ErrorCode::out_of_memory, "above the address space", {}, "bytes", std::to_string(bytes));
  }
  const std::uint64_t mapped = huge ? bytes + kHugePage : bytes;
  void* start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "the system refused the mapping: " + std::generic_category().message(errno), {},
                "bytes", std::to_string(bytes));
  }
  auto* base = static_cast<std::byte*>(start);
  if (huge) {
    // Keep the part that starts on a huge page.
    const std::uint64_t skip = (kHugePage - reinterpret_cast<std::uintptr_t>(base) % kHugePage) % kHugePage;
    if (skip != 0) ::munmap(base, skip);
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t end = (skip + bytes + page - 1) / page * page;
    if (end < mapped) ::munmap(base + end, mapped - end);
    base += skip;
    ::madvise(base, bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages is slower, not wrong
  }
  return Arena(base, bytes);
}

Arena::~Arena() {
  if (base_ == nullptr) return;
  allow_access(base_, bytes_);  // the next mapping may get these addresses
  ::munmap(base_, bytes_);
}

}  // namespace plumb::device
