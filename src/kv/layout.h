// KvLayout: how much KV memory a model needs for what admission will allow, by layer class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/api/kv_view.h"
#include "kv/residency.h"
#include "model/spec.h"

namespace plumb::kv {

struct KvOptions {
  std::int32_t context = 0;       // positions a sequence may reach
  std::int32_t sequences = 1;     // sequences resident at once
  std::int32_t chunk_rows = 0;    // most rows of one sequence in one step
  std::int32_t chain_depth = 0;   // steps launched before the first settles, beyond one
  // Positions of the full class that the pool holds for all sequences together; 0: sequences * context.
  std::int64_t pool_positions = 0;
  // Window pages kept for the prefix tree beyond the rings of the running sequences.
  std::int32_t snapshot_pages = 0;
  kernels::KvFormat format = kernels::KvFormat::f32;
};

struct KvClass {
  Residency residency;
  kernels::KvClassGeometry geometry;
  std::int32_t layers = 0;
  std::uint64_t page_bytes = 0;  // one page over all layers of the class, K and V
  std::uint64_t pool_bytes() const { return page_bytes * static_cast<std::uint64_t>(geometry.pages); }
};

struct KvLayout {
  KvOptions options;
  std::vector<KvClass> classes;  // order of model::layer_classes
  std::uint64_t total_bytes() const;
  std::vector<kernels::KvClassGeometry> geometry() const;
};

// Errors: invalid_argument naming the option (context above the model's max_positions, no room for a chunk, counts that do
// not fit 31 bits).
Result<KvLayout> plan_kv(const model::DecoderSpec& spec, const KvOptions& options);

}  // namespace plumb::kv
