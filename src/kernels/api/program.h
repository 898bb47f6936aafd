// A Program: one decode step of a model as plain data.
//
// Lowering (model/decoder.cpp) emits it once, at load. It is a list of slots (named ranges of device memory) and a list of
// phases (an op and its arguments, references symbolic). Executors bind it to memory and encode it for a batch; the route
// witness, per-class timing, memory plans and a whole-step kernel read the same list. It knows nothing of models.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

struct OpDesc;  // table.h

// What stands behind a slot, and so who provides its memory.
enum class SlotKind : std::uint8_t {
  weight,      // bytes of the checkpoint, mapped, placed in a bank, or packed into one at load
  activation,  // scratch of a step; contents do not outlive it
  kv,          // pages of the KV pools, provided by kv/
  state,       // outlives a step: relay cells, recurrent state
  batch,       // written from the RowBatch at the start of each step
  output,      // read by the host after the step
};

struct Slot {
  std::string name;  // "blk.3.attn_q.weight", "x", "kv.0.layer3.k"
  SlotKind kind = SlotKind::activation;
  std::uint64_t bytes = 0;
};

// Which count of the batch a phase runs over.
enum class RowCount : std::uint8_t { rows, logit_rows };

inline constexpr std::size_t kArgsBytes = 448;

// An op's arguments without its type: the op descriptor that wrote them reads them.
class ArgsBlob {
 public:
  ArgsBlob() = default;
  template <class Args>
  explicit ArgsBlob(const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kArgsBytes && alignof(Args) <= 16);
    std::memcpy(bytes_.data(), &args, sizeof(Args));
  }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }

 private:
  alignas(16) std::array<std::byte, kArgsBytes> bytes_{};
};
static_assert(kArgsBytes <= device::kMaxArgsBytes);

// The phases of this class, the last of a Program, are the sample half of a step: they may be submitted later than the forward
// half before them (DESIGN: a ticket has two halves).
inline constexpr const char* kSamplePhase = "sample";

struct Phase {
  const OpDesc* op = nullptr;
  RowCount over = RowCount::rows;
  std::int16_t layer = -1;
  const char* phase_class = "";  // static string: "embed", "attention_sliding", "attention_full", "moe", "dense", "head", "sample"
  ArgsBlob args;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<Phase> load;    // run once, in order, before the first step, each over its own `rows`: packing of weights
  std::vector<Phase> phases;  // of a step
  std::int32_t max_rows = 0;
  std::int32_t max_logit_rows = 0;

  SlotId add_slot(std::string name, SlotKind kind, std::uint64_t bytes) {
    slots.push_back({std::move(name), kind, bytes});
    return static_cast<SlotId>(slots.size() - 1);
  }
};

// A reference to element `index` of a slot.
template <class T>
Ref<T> ref(SlotId slot, std::uint64_t index = 0) {
  return Ref<T>{index * sizeof(T), slot, 0};
}

}  // namespace plumb::kernels
