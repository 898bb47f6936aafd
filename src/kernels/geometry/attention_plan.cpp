#include "kernels/geometry/attention_plan.h"

#include <algorithm>
#include <charconv>

namespace plumb::kernels {
namespace {

using enum AttentionVariant;

constexpr std::string_view kNames[] = {"serial", "grouped", "seqpar", "seqpar_long", "tiled"};

// With fewer tasks than this for each worker, one that is late is waited for; slices even that out.
constexpr std::int32_t kTasksPerWorker = 2;

constexpr std::int64_t kAnySpan = std::int64_t{1} << 40;
constexpr std::int64_t kLong = 8192;

// Measured on AMD EPYCs (avx2 on Zen 3 and Zen 4, avx512 on Zen 4) and with more workers on a Xeon (avx512); docs/BENCHMARKS.md has the figures.
// Single rows, spans of 512, 2,048, 8,192, 32,768 and 131,072, with 1 to 16 workers: stretches are level with whole rows or ahead from 8,192
// on, and with slices from where there is one for each worker. Blocks of 64, spans of 256, 2,048 and 16,384: tiled is ahead or level in every
// form.
constexpr AttentionRow kRows[] = {
    {device::Backend::cpu, Isa::avx2, 64, 8, 2, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 8, 2, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 16, 4, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 16, 4, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 64, 8, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 64, 8, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx2, 128, 32, 8, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx2, 128, 32, 8, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 8, 2, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 8, 2, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 16, 4, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 16, 4, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 64, 8, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 64, 8, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
    {device::Backend::cpu, Isa::avx512, 128, 32, 8, 1, kLong, grouped, seqpar, tiled},
    {device::Backend::cpu, Isa::avx512, 128, 32, 8, kLong, kAnySpan, seqpar_long, seqpar_long, tiled},
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

// Pieces that `keys` neighbouring keys are cut in, at most: they need not begin with one.
std::int64_t pieces(std::int64_t keys, std::int64_t each) { return (keys + each - 2) / each + 1; }

// `wanted` and where there is no room for it, the next best. `parts`: tasks of seqpar.
AttentionChoice with_room(AttentionVariant wanted, std::int64_t parts, const AttentionShape& shape) {
  if (wanted == seqpar && pieces(shape.span, kAttentionSlice) <= shape.places) {
    const auto count = static_cast<std::int32_t>(std::min(parts, (shape.span + kAttentionSlice - 1) / kAttentionSlice));
    return {seqpar, count, count};
  }
  if ((wanted == seqpar || wanted == seqpar_long) && pieces(shape.span, kAttentionStretch) <= shape.places) {
    return {seqpar_long, 1, static_cast<std::int32_t>((shape.span + kAttentionStretch - 1) / kAttentionStretch)};
  }
  return {wanted == seqpar || wanted == seqpar_long ? grouped : wanted, 1, 1};
}

}  // namespace

AttentionChoice plan_attention(const AttentionRequest& request, const AttentionShape& shape) {
  if (request.kind == AttentionRequest::Kind::off) return {serial, 1, 1};
  if (request.kind == AttentionRequest::Kind::parts) return with_room(seqpar, request.parts, shape);
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const AttentionRow& r) {
    return r.backend == shape.backend && r.isa == shape.isa && r.head_dim == shape.head_dim && r.q_heads == shape.q_heads &&
           r.kv_heads == shape.kv_heads && r.from <= shape.span && shape.span < r.to;
  });
  if (row == std::end(kRows)) return {serial, 1, 0};
  if (shape.rows >= kBlockRowsMeasured * std::max(shape.sequences, 1)) return {row->block, 1, 1};
  const std::int64_t tasks = std::int64_t{shape.rows} * shape.kv_heads;
  const std::int64_t wanted = std::int64_t{kTasksPerWorker} * shape.workers;
  if (tasks >= wanted || shape.span <= kAttentionSlice) return with_room(row->one, 1, shape);
  // Stretches are tasks enough when each worker gets one: they gain more by what they do not merge than they lose by waiting.
  const bool enough = tasks * (shape.span / kAttentionStretch) >= shape.workers;
  return with_room(row->shared == seqpar_long && !enough ? seqpar : row->shared, (wanted + tasks - 1) / tasks, shape);
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
