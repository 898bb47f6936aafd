// Device memory, reserved once and handed out by name.
//
// A Bank is planned (names and sizes), reserved in one piece before decode starts for the worst case that admission allows,
// and then only looked up. Nothing is allocated while a command buffer is being encoded: Queue::reserve with a live encoder
// is ErrorCode::allocation_while_encoding, naming the bank, what was asked and what was reserved. A plan that does not fit
// is ErrorCode::out_of_memory with the arithmetic.
//
// Checked mode (CpuQueueOptions::checked): every buffer lies between guard bands, is filled with NaN payloads that carry its
// allocation id when reserved, and verify() finds a write outside of any buffer and names its neighbour. The guards are
// verified after every command buffer too. Memory of a dropped bank is unmapped: using it is a fault, not a wrong answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace plumb::device {

inline constexpr std::uint64_t kBankAlignment = 128;  // one pair of cache lines; a CUDA transaction
// Checked mode: bytes watched on both sides of a buffer. Wide enough that a loop running a vector or a small row too far
// does not step over it.
inline constexpr std::uint64_t kGuardBytes = 1024;

// A handed-out range. A plain value: copying it copies nothing. `address` is a device address; the host may dereference it
// only when the bank is host_visible().
struct Buffer {
  std::byte* address = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t id = 0;  // allocation id, unique within the queue; 0: no buffer

  explicit operator bool() const { return address != nullptr; }
  template <class T>
  T* as() const { return reinterpret_cast<T*>(address); }
};

struct BankRegion {
  std::string name;
  std::uint64_t bytes = 0;
};

// What to reserve. Regions are aligned to kBankAlignment.
struct BankPlan {
  std::string name;
  std::vector<BankRegion> regions;
  bool host_visible = false;  // the host reads results here after a successful wait (pinned memory on a GPU)

  // Returns the region's index: the argument of Bank::buffer.
  std::size_t add(std::string region, std::uint64_t bytes) {
    regions.push_back({std::move(region), bytes});
    return regions.size() - 1;
  }
  // Bytes including alignment and guards (in checked mode, and in a build under the address sanitizer, which watches them
  // for reads as well); saturates instead of wrapping.
  std::uint64_t total_bytes(bool checked) const;
  // Offset of each region in an arena of total_bytes(checked). REQUIRES: the total did not saturate.
  std::vector<std::uint64_t> offsets(bool checked) const;
  // ErrorCode::out_of_memory with the arithmetic unless total_bytes(checked) beside `reserved` bytes in `banks` banks stays
  // within `limit`.
  Status fits(bool checked, std::uint64_t reserved, std::uint64_t banks, std::uint64_t limit) const;
};

class Bank {
 public:
  virtual ~Bank() = default;
  Bank() = default;
  Bank(const Bank&) = delete;
  Bank& operator=(const Bank&) = delete;

  virtual const BankPlan& plan() const = 0;
  // REQUIRES: index < plan().regions.size().
  virtual Buffer buffer(std::size_t index) const = 0;
  virtual bool host_visible() const = 0;
  // Checked mode: ErrorCode::device_fault naming the first buffer whose guard was written. Otherwise success.
  // Thread rule: no submission in flight on the bank's queue.
  virtual Status verify() const = 0;
  // Checked mode: refills a region with its poison. Thread rule as verify().
  virtual void poison(std::size_t index) = 0;
};

// The 32-bit poison of an allocation: a signalling-NaN pattern with the id in its payload, so a NaN that reaches an output
// names the buffer it was read from.
constexpr std::uint32_t poison_word(std::uint32_t id) { return 0x7F800001U | ((id & 0x1FFFFFU) << 1); }
constexpr std::uint32_t poison_owner(std::uint32_t word) { return (word & 0x3FFFFEU) >> 1; }
// Arithmetic makes a signalling NaN quiet (bit 22) and keeps its payload, so both count. The NaN that arithmetic makes by
// itself has bit 0 clear.
constexpr bool is_poison(std::uint32_t word) { return (word & 0x7F800001U) == 0x7F800001U; }
// Poison that no arithmetic has touched: memory nobody wrote, or a copy of it.
constexpr bool is_untouched_poison(std::uint32_t word) { return (word & 0x7FC00001U) == 0x7F800001U; }

}  // namespace plumb::device
