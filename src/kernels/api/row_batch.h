// The rows of one step: any mix of prefill and decode.
//
// A RowBatch is plain host data; the executor uploads it into the batch slots of a Program. Rows of one sequence appear in
// ascending position. A row's token comes from the host or from a relay cell on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/sample.h"

namespace plumb::kernels {

// Position (what RoPE sees) and row index (where in the batch) are different things and different types.
struct Position {
  std::int32_t value = 0;
  auto operator<=>(const Position&) const = default;
};

struct Row {
  std::int32_t token = 0;      // ignored when source >= 0
  std::int32_t source = -1;    // relay cell that holds the token, or -1
  Position position;
  std::int32_t sequence = 0;   // row of the page tables
  bool advance = true;         // the device's length of the sequence follows this row
  std::uint32_t write_classes = 0xFFFFFFFFU;  // bit c: append to layer class c; cleared only by a window rebuild
};

// A row whose logits are wanted, and what to draw from them.
struct LogitRow {
  std::int32_t row = 0;          // index into RowBatch::rows
  SampleParams params;
  std::int32_t relay_cell = -1;  // where the drawn token is left for a later step, or -1
};

struct RowBatch {
  std::vector<Row> rows;
  std::vector<LogitRow> logits;

  void clear() {
    rows.clear();
    logits.clear();
  }
};

// Names of the batch, state and output slots that every lowered Program has. Sizes by Program::max_rows and max_logit_rows.
inline constexpr const char* kSlotTokens = "batch.tokens";            // i32 [max_rows]
inline constexpr const char* kSlotSources = "batch.sources";          // i32 [max_rows]
inline constexpr const char* kSlotPositions = "batch.positions";      // i32 [max_rows]
inline constexpr const char* kSlotSequences = "batch.sequences";      // i32 [max_rows]
inline constexpr const char* kSlotWriteSequences = "batch.write_sequences.c";  // + class index: i32 [max_rows], -1: no append
inline constexpr const char* kSlotAdvance = "batch.advance";          // i32 [max_rows]: the sequence whose length a row sets, or -1
inline constexpr const char* kSlotLogitIndex = "batch.logit_index";   // i32 [max_logit_rows]
inline constexpr const char* kSlotSampleParams = "batch.params";      // SampleParams [max_logit_rows]
inline constexpr const char* kSlotRelayOf = "batch.relay_of";         // i32 [max_logit_rows]
inline constexpr const char* kSlotEdits = "batch.edits";              // LogitEdit [max_edits]
inline constexpr const char* kSlotEditOffsets = "batch.edit_offsets";  // i32 [max_logit_rows + 1]
inline constexpr const char* kSlotMasks = "batch.masks";              // u32 [sequences][mask_words(vocab)]
inline constexpr const char* kSlotMaskOf = "batch.mask_of";           // i32 [max_logit_rows]
inline constexpr const char* kSlotLengths = "state.lengths";          // i32 [sequences]: positions each sequence has passed
// Of models with recurrent layers. The table outlives a step and is kept as the page tables are: kNoStateSlot until somebody
// writes it. States hold [slots] times the layer's state_slot_bytes; a slot is zeroed or copied before its sequence's first row.
inline constexpr const char* kSlotStateSlots = "state.slots";               // i32 [sequences]
inline constexpr const char* kSlotRecurrentState = "state.recurrent.layer"; // + layer index: f32 [slots][heads][key_dim][value_dim]
inline constexpr const char* kSlotRelay = "state.relay";              // i32 [relay_cells]
inline constexpr const char* kSlotLogits = "out.logits";              // f32 [max_logit_rows][vocab]
inline constexpr const char* kSlotSampled = "out.tokens";             // i32 [max_logit_rows]
inline constexpr const char* kSlotDigests = "out.digests";            // u64 [max_logit_rows]

}  // namespace plumb::kernels
