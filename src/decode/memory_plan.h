// MemoryPlan: what device memory a lowered model needs, region by region, before any of it is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "decode/executor_options.h"
#include "device/bank.h"
#include "kv/layout.h"
#include "model/decoder.h"

namespace plumb::decode {

// Bytes by use. What stays mapped is the checkpoint's own and is not reserved.
struct MemoryUse {
  std::uint64_t mapped_weights = 0;  // read in place from the checkpoint
  std::uint64_t packed_weights = 0;  // repacked at load for the kernels chosen; their mapped pages are given back
  std::uint64_t constants = 0;
  std::uint64_t kv = 0;
  std::uint64_t activations = 0;
  std::uint64_t results = 0;
  std::uint64_t total() const { return mapped_weights + packed_weights + constants + kv + activations + results; }
};

struct MemoryPlan {
  enum class Place : std::uint8_t { nowhere, constants, kv, step };  // nowhere: a weight that stays mapped
  device::BankPlan constants{"constants", {}, false};
  device::BankPlan kv{"kv", {}, false};
  device::BankPlan step{"step", {}, false};
  device::BankPlan results{"results", {}, true};
  std::vector<std::pair<Place, std::size_t>> where;  // by SlotId: the bank, and the region in it
  std::int32_t vocab = 0;
  MemoryUse use;
};

MemoryPlan plan_memory(const model::LoweredModel& model, const kv::KvLayout& layout, const ExecutorOptions& options);

}  // namespace plumb::decode
