#include "kernels/geometry/attention_plan.h"

#include <algorithm>
#include <charconv>

namespace plumb::kernels {
namespace {

using enum AttentionVariant;

constexpr std::string_view kNames[] = {"serial", "grouped", "seqpar", "tiled"};

// With fewer tasks than this for each worker, one that is late is waited for; slices even that out.
constexpr std::int32_t kTasksPerWorker = 2;

constexpr std::int64_t kAnySpan = std::int64_t{1} << 40;

// Measured on AMD EPYCs (avx2 on Zen 3, avx512 on Zen 4), single rows and blocks of 64, at spans of 256 and 2,048 in f32, f16 and q8;
// docs/BENCHMARKS.md has the figures. Single rows: grouped and tiled are one. Blocks: tiled is ahead or level in every form, but for 64/8 heads in
// f32 at 256 with avx512.
constexpr AttentionRow kRows[] = {
    {device::Backend::cpu, Isa::avx2, 64, 8, 2, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 16, 4, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx2, 64, 64, 8, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx2, 128, 32, 8, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 8, 2, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 16, 4, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx512, 64, 64, 8, 1, kAnySpan, grouped, tiled},
    {device::Backend::cpu, Isa::avx512, 128, 32, 8, 1, kAnySpan, grouped, tiled},
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

AttentionChoice plan_attention(const AttentionRequest& request, const AttentionShape& shape) {
  if (request.kind == AttentionRequest::Kind::off) return {serial, 1, 1};
  if (request.kind == AttentionRequest::Kind::parts) return {seqpar, request.parts, request.parts};
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const AttentionRow& r) {
    return r.backend == shape.backend && r.isa == shape.isa && r.head_dim == shape.head_dim && r.q_heads == shape.q_heads &&
           r.kv_heads == shape.kv_heads && r.from <= shape.span && shape.span < r.to;
  });
  if (row == std::end(kRows)) return {serial, 1, 0};
  if (shape.rows >= kBlockRowsMeasured * std::max(shape.sequences, 1)) return {row->block, 1, 1};
  const std::int64_t tasks = std::int64_t{shape.rows} * shape.kv_heads;
  const std::int64_t wanted = std::int64_t{kTasksPerWorker} * shape.workers;
  const std::int64_t slices = (shape.span + kAttentionSlice - 1) / kAttentionSlice;
  if (tasks >= wanted || slices < 2) return {row->one, 1, 1};
  const auto parts = static_cast<std::int32_t>(std::min(slices, (wanted + tasks - 1) / tasks));
  return {seqpar, parts, parts};
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
