// Which attention kernel runs: a choice by geometry, from rows measured with ladders/attention_decode, attention_parts and
// attention_prefill (docs/BENCHMARKS.md). No model names.
//
// All attention kernels of a backend have the same bits (api/attention.h), so the choice may look at the whole launch.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/table.h"

namespace plumb::kernels {

enum class AttentionVariant : std::uint8_t { serial, grouped, seqpar, seqpar_long, tiled };
inline constexpr AttentionVariant kAttentionVariants[] = {AttentionVariant::serial, AttentionVariant::grouped, AttentionVariant::seqpar,
                                                          AttentionVariant::seqpar_long, AttentionVariant::tiled};
std::string_view to_string(AttentionVariant variant);

// What was asked for.
struct AttentionRequest {
  enum class Kind : std::uint8_t {
    automatic,  // the measured rows decide
    off,        // serial
    parts,      // seqpar, each row's slices shared out to at most `parts` tasks; without room for them seqpar_long, without room for that grouped
  };
  Kind kind = Kind::automatic;
  std::int32_t parts = 0;
};
// "" (unset) or "auto", "off", or a number of parts from 1 to 256. Errors: invalid_argument.
Result<AttentionRequest> parse_attention(const std::string& text);

// One launch.
struct AttentionShape {
  device::Backend backend = device::Backend::cpu;
  Isa isa = Isa::portable;  // of the kernels, not of the machine: sets without attention of their own take that of one below
  std::int32_t head_dim = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t rows = 0;
  std::int32_t sequences = 0;  // different ones among the rows
  std::int64_t span = 0;       // most keys that a row sees
  std::int32_t workers = 1;
  // Of a row, the most: slices and stretches that it sees. And places for each row to keep them apart (AttentionArgs::partials).
  std::int64_t slices = 0;
  std::int64_t stretches = 0;
  std::int64_t places = 0;
};

// For spans below `to` (and not below the bucket before): `one` is the fastest for launches with few rows of a sequence, `shared` for those with
// fewer tasks than the workers need, and `block` for those with at least kBlockRowsMeasured rows of each sequence.
struct AttentionBucket {
  std::int64_t to;
  AttentionVariant one, shared, block;
};
// A measured row: what to run for this geometry. Buckets by rising `to`, the last without an end (kAnySpan).
struct AttentionRow {
  device::Backend backend;
  Isa isa;
  std::int32_t head_dim, q_heads, kv_heads;
  std::span<const AttentionBucket> buckets;
};
inline constexpr std::int64_t kAnySpan = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int32_t kBlockRowsMeasured = 8;
std::span<const AttentionRow> attention_rows();

struct AttentionChoice {
  AttentionVariant variant = AttentionVariant::serial;
  std::int32_t parts = 1;
  // Tasks that a row's keys of one KV head are cut in, at most; 0: refused, no row was measured for the geometry and serial runs.
  std::int32_t slices = 1;
};
// Places that an engine keeps for texts of up to `context` tokens: four rows of a step have room for their stretches over the whole context,
// and for their slices up to a span at which stretches are tasks enough too. More rows, which are tasks themselves, divide the same room.
std::int32_t attention_places(std::int32_t context);

AttentionChoice plan_attention(const AttentionRequest& request, const AttentionShape& shape);

// The kernel of a variant for these arguments, of at most `isa`; null when the table has none.
const KernelEntry* attention_kernel(AttentionVariant variant, const void* args, device::Backend backend, Isa isa);

}  // namespace plumb::kernels
