#include "kernels/geometry/attention_plan.h"

#include <algorithm>
#include <charconv>

namespace plumb::kernels {
namespace {

using enum AttentionVariant;

constexpr std::string_view kNames[] = {"serial", "grouped", "seqpar", "seqpar_long", "tiled"};

// With fewer tasks than this for each worker, one that is late is waited for; slices even that out.
constexpr std::int32_t kTasksPerWorker = 2;

// docs/BENCHMARKS.md has the figures. Single rows by one and two workers, f16, 512 to 131,072 keys, on an EPYC of Zen 4, both sets: stretches are
// level with whole rows or ahead from 8,192 keys on. By up to 16 workers of a Xeon, both sets: stretches are ahead of slices where there is one
// for each worker. Whole rows, f32, f16 and q8, 256 and 2,048 keys, on EPYCs of Zen 3 (avx2) and Zen 4 (avx512). Blocks of 64 rows there too, and
// f16 at 16,384 keys: tiled is ahead or within 5% of whole rows. Several requests that decode together take what single rows take: eight were a
// tenth faster by stretches. All geometries came out the same.
constexpr AttentionBucket kBuckets[] = {{8192, grouped, seqpar, tiled}, {kAnySpan, seqpar_long, seqpar_long, tiled}};
constexpr AttentionRow kRows[] = {
    {device::Backend::cpu, Isa::avx2, 64, 8, 2, kBuckets},
    {device::Backend::cpu, Isa::avx2, 64, 16, 4, kBuckets},
    {device::Backend::cpu, Isa::avx2, 64, 64, 8, kBuckets},
    {device::Backend::cpu, Isa::avx2, 128, 32, 8, kBuckets},
    {device::Backend::cpu, Isa::avx512, 64, 8, 2, kBuckets},
    {device::Backend::cpu, Isa::avx512, 64, 16, 4, kBuckets},
    {device::Backend::cpu, Isa::avx512, 64, 64, 8, kBuckets},
    {device::Backend::cpu, Isa::avx512, 128, 32, 8, kBuckets},
};

}  // namespace

std::string_view to_string(AttentionVariant variant) { return kNames[static_cast<std::size_t>(variant)]; }

std::span<const AttentionRow> attention_rows() { return kRows; }

Result<AttentionRequest> parse_attention(const std::string& text) {
  if (text.empty() || text == "auto") return AttentionRequest{};
  if (text == "off") return AttentionRequest{AttentionRequest::Kind::off, 0};
  std::int32_t parts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts);
  if (error != std::errc{} || end != text.data() + text.size() || parts < 1 || parts > 256) {
    return fail(ErrorCode::invalid_argument, "must be auto, off or a number from 1 to 256", "engine options", "attention", text);
  }
  return AttentionRequest{AttentionRequest::Kind::parts, parts};
}

namespace {

// `wanted` if there is room for it, else the next best. `parts`: tasks of seqpar.
AttentionChoice with_room(AttentionVariant wanted, std::int64_t parts, const AttentionShape& shape) {
  if (wanted == seqpar && shape.slices <= shape.places) {
    const auto count = static_cast<std::int32_t>(std::min(parts, shape.slices));
    return {seqpar, count, count};
  }
  if (wanted != seqpar && wanted != seqpar_long) return {wanted, 1, 1};
  // One stretch is a whole row.
  if (shape.stretches >= 2 && shape.stretches <= shape.places) return {seqpar_long, 1, static_cast<std::int32_t>(shape.stretches)};
  return {grouped, 1, 1};
}

}  // namespace

std::int32_t attention_places(std::int32_t context) {
  constexpr std::int64_t kRowsInParts = 4;
  constexpr std::int64_t kSlicesInParts = 128;
  const std::int64_t slices = attention_slices(0, context - 1);
  const std::int64_t stretches = attention_stretches(0, context - 1);
  return static_cast<std::int32_t>(kRowsInParts * std::min(slices, std::max(stretches, kSlicesInParts)));
}

AttentionChoice plan_attention(const AttentionRequest& request, const AttentionShape& shape) {
  if (request.kind == AttentionRequest::Kind::off) return {serial, 1, 1};
  if (request.kind == AttentionRequest::Kind::parts) return with_room(seqpar, request.parts, shape);
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const AttentionRow& r) {
    return r.backend == shape.backend && r.isa == shape.isa && r.head_dim == shape.head_dim && r.q_heads == shape.q_heads &&
           r.kv_heads == shape.kv_heads;
  });
  if (row == std::end(kRows)) return {serial, 1, 0};
  const AttentionBucket& bucket = *std::find_if(row->buckets.begin(), row->buckets.end(), [&](const AttentionBucket& b) { return shape.span < b.to; });
  if (shape.rows >= kBlockRowsMeasured * std::max(shape.sequences, 1)) return {bucket.block, 1, 1};
  const std::int64_t tasks = std::int64_t{shape.rows} * shape.kv_heads;
  const std::int64_t wanted = std::int64_t{kTasksPerWorker} * shape.workers;
  if (tasks >= wanted || shape.slices < 2) return with_room(bucket.one, 1, shape);
  // Stretches are tasks enough when each worker gets a whole one: they gain more by what they do not merge than they lose by waiting.
  const bool enough = tasks * (shape.span / kAttentionStretch) >= shape.workers;
  return with_room(bucket.shared == seqpar_long && !enough ? seqpar : bucket.shared, (wanted + tasks - 1) / tasks, shape);
}

const KernelEntry* attention_kernel(AttentionVariant variant, const void* args, device::Backend backend, Isa isa) {
  for (const KernelEntry& entry : all_kernels()) {
    if (entry.op == &op<AttentionArgs>() && entry.kernel.backend == backend && isa_includes(isa, entry.isa) &&
        std::string_view(entry.kernel.name).ends_with(to_string(variant)) && entry.accepts(args)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace plumb::kernels
