// Lowering: a DecoderSpec and its weights become a Program, once, at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/api/kv_view.h"
#include "kernels/api/program.h"
#include "model/spec.h"
#include "model/weights.h"

namespace plumb::model {

// In which form activations reach the products of quantised weights.
enum class Act : std::uint8_t {
  f32,  // the exact path
  q8,   // signed bytes in blocks of 32, where the weight's format has a packed layout; f32 elsewhere (the router)
};

struct LoweringLimits {
  std::int32_t max_rows = 0;        // rows of one step, prefill and decode together
  std::int32_t max_logit_rows = 0;  // rows of one step that want logits
  Act act = Act::f32;
  std::int32_t sequences = 1;       // rows of the page tables: a pending token and a length of each are kept on the device
  std::int32_t max_edits = 4096;    // changes of single logits in one step
  std::int32_t attention_places = 0;  // for slices or stretches of keys, over all rows of a step, that workers share out (AttentionArgs::partials)
  // Models with recurrent layers: states kept on the device, those of running sequences and of snapshots together; not 0 then.
  std::int32_t state_slots = 0;
};

// Bytes a weight slot holds at the start of decode. A backend whose kernels can read host memory points the slot at `bytes`
// (the mapped checkpoint); others place a copy.
struct WeightSource {
  kernels::SlotId slot = kernels::kNoSlot;
  std::span<const std::byte> bytes;
  bool mapped = false;     // lives in the checkpoint's mapping, else in LoweredModel::constants
  bool load_only = false;  // mapped, and read by Program::load alone: its pages can go once that has run
  bool packed = false;     // `bytes` is empty: Program::load writes the slot
};

// Where a layer's keys and values are kept.
struct KvLayer {
  kernels::SlotId k, v;
  std::int32_t layer_class;
  kernels::KvView view;
};

struct LoweredModel {
  kernels::Program program;
  std::vector<WeightSource> weights;
  std::vector<std::vector<float>> constants;  // what vector sources point at
  std::vector<std::int32_t> classes;          // window per layer class, the order of `kv` below
  std::vector<KvLayer> kv_layers;             // of the layers that attend, in order
};

// Walks the spec and emits the phases of one step: embed, per layer (norm, mixer, norm, feed-forward), gather, norm, head,
// sample.
//
// REQUIRES: kv has one entry per layer class in layer_classes(spec) order.
// Errors: unsupported (a spec no op implements, named), shape_mismatch (weights that do not fit the spec, named),
// invalid_argument (recurrent layers and no state slots).
// The result borrows the mapped bytes of `weights`; the checkpoint must outlive it.
Result<LoweredModel> lower(const DecoderSpec& spec, DecoderWeights weights, std::span<const kernels::KvClassGeometry> kv,
                           const LoweringLimits& limits);

}  // namespace plumb::model
