// A reference to device memory inside an op's arguments: symbolic while a Program is data, an address once it is bound.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plumb::kernels {

// Index into Program::slots. Two slots never overlap.
using SlotId = std::uint32_t;
inline constexpr SlotId kNoSlot = 0xFFFFFFFFU;

// Before binding `at` is a byte offset into the slot; binding adds the slot's base address. An optional operand that is
// absent has slot == kNoSlot and at == 0 before and after binding, so get() is null.
template <class T>
struct Ref {
  std::uint64_t at = 0;
  SlotId slot = kNoSlot;
  std::uint32_t padding = 0;  // explicit: arguments are copied and hashed as bytes

  T* get() const { return reinterpret_cast<T*>(at); }
  T& operator[](std::int64_t i) const { return get()[i]; }
  explicit operator bool() const { return slot != kNoSlot; }
};

// For tests and references that work on host memory without a Program.
inline constexpr SlotId kHostSlot = 0xFFFFFFFEU;
template <class T>
Ref<T> host_ref(T* address) {
  return Ref<T>{reinterpret_cast<std::uint64_t>(address), address == nullptr ? kNoSlot : kHostSlot, 0};
}

// `scratch`: written and read by the kernel; what it holds before and after a launch is nobody's.
enum class Access : std::uint8_t { read, write, read_write, scratch };

// One operand of an op as its visitor reports it. `bytes` is the extent from the reference on that the op may touch with the
// arguments as they are; it is what binding checks against the slot.
struct OperandInfo {
  const char* name;
  Access access;
  std::uint64_t bytes;
  bool f32 = false;  // elements are float; filled in by OpDesc::operands
};

}  // namespace plumb::kernels
