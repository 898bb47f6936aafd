#include "quantize_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/status.h"
#include "error_tally.h"
#include "format/quantize/quantize.h"
#include "verb.h"

namespace plumb::app {
namespace {

using format::quantize::ErrorSum;
using format::quantize::Format;

// Elements decoded and quantised at once: enough that calls cost nothing, few enough for the stack of caches.
constexpr std::uint64_t kStep = 1 << 14;

bool is_matrix(const TensorJob& job) { return job.shape.size() >= 2 && job.name.ends_with(".weight"); }
bool is_router(const TensorJob& job) { return job.name.find("ffn_gate_inp") != std::string::npos; }
bool is_block(DType type) { return dtype_info(type).block_elements > 1; }

const TensorChoice* choice_for(const QuantizePlan& plan, const std::string& name) {
  const TensorChoice* last = nullptr;
  for (const TensorChoice& choice : plan.tensors) {
    if (::fnmatch(choice.pattern.c_str(), name.c_str(), 0) == 0) last = &choice;
  }
  return last;
}

// Makes the old job's bytes, decodes and encodes them.
struct QuantizedFill {
  FillFn source;
  DType from;
  const Format* to;
  std::uint64_t step;  // elements; whole blocks and granules on both sides
  Refusal refusal;
  std::shared_ptr<ErrorTally> errors;

  void operator()(std::uint64_t offset, std::span<std::byte> out) const {
    const DTypeInfo& in = dtype_info(from);
    const DTypeInfo& info = dtype_info(to->type);
    const std::uint64_t first = offset / info.block_bytes * info.block_elements;
    const std::uint64_t count = out.size() / info.block_bytes * info.block_elements;
    std::vector<std::byte> stored;
    std::vector<float> values, again;
    ErrorSum sum;
    for (std::uint64_t at = 0; at < count; at += step) {
      const std::uint64_t n = std::min(step, count - at);
      stored.resize(n / in.block_elements * in.block_bytes);
      values.resize(n);
      again.resize(n);
      source((first + at) / in.block_elements * in.block_bytes, stored);
      format::quantize::decode_blocks(from, reinterpret_cast<const std::uint8_t*>(stored.data()), n, values.data());
      for (float& value : values) {
        if (std::fabs(value) <= to->limit) continue;
        refusal->store(true, std::memory_order_relaxed);
        value = 0;
      }
      auto* blocks = reinterpret_cast<std::uint8_t*>(out.data()) + at / info.block_elements * info.block_bytes;
      for (std::uint64_t i = 0; i < n; i += info.block_elements) to->encode(values.data() + i, blocks + i / info.block_elements * info.block_bytes);
      format::quantize::decode_blocks(to->type, blocks, n, again.data());
      sum.add(values, again);
    }
    errors->add(offset, sum);
  }
};

void quantize_job(Conversion& c, std::size_t i, const Format& to) {
  TensorJob& job = c.jobs[i];
  const DTypeInfo& in = dtype_info(job.dtype);
  const DTypeInfo& info = dtype_info(to.type);
  const std::uint64_t granule = std::lcm(job.granule / in.block_bytes * in.block_elements, std::uint64_t{info.block_elements});
  if (c.refusals[i] == nullptr) c.refusals[i] = std::make_shared<std::atomic<bool>>(false);
  c.errors[i] = std::make_shared<ErrorTally>();
  job.fill = QuantizedFill{.source = job.fill,
                           .from = job.dtype,
                           .to = &to,
                           .step = std::max<std::uint64_t>(kStep / granule, 1) * granule,
                           .refusal = c.refusals[i],
                           .errors = c.errors[i]};
  job.granule = granule / info.block_elements * info.block_bytes;
  job.dtype = to.type;
}

}  // namespace

Result<TensorChoice> parse_tensor_choice(const std::string& text) {
  const auto equals = text.rfind('=');
  const auto type = equals == std::string::npos ? std::nullopt : dtype_from_name(text.substr(equals + 1));
  if (equals == 0 || !type || format::quantize::find_format(*type) == nullptr) {
    std::string known;
    for (const Format& f : format::quantize::formats()) known += (known.empty() ? "" : ", ") + std::string(to_string(f.type));
    return usage_error("--tensor", "must be PATTERN=FORMAT with a format of " + known, text);
  }
  return TensorChoice{text.substr(0, equals), *type};
}

Status apply(const QuantizePlan& plan, const std::string& subject, Conversion& c) {
  for (const TensorChoice& choice : plan.tensors) {
    const bool used = std::any_of(c.jobs.begin(), c.jobs.end(), [&](const TensorJob& job) {
      return is_matrix(job) && ::fnmatch(choice.pattern.c_str(), job.name.c_str(), 0) == 0;
    });
    if (!used) return fail(ErrorCode::invalid_argument, "matches no matrix of this model", subject, "--tensor", choice.pattern);
  }
  int requantized = 0, kept = 0, substituted = 0;
  std::string substitute, first_requantized;
  for (std::size_t i = 0; i < c.jobs.size(); ++i) {
    TensorJob& job = c.jobs[i];
    if (!is_matrix(job)) continue;
    const TensorChoice* choice = choice_for(plan, job.name);
    if (choice == nullptr && (!plan.matrices.has_value() || is_router(job))) continue;
    const Format* to = format::quantize::find_format(choice != nullptr ? choice->type : *plan.matrices);
    if (to->type == job.dtype) continue;
    if (!format::quantize::can_decode(job.dtype)) {
      return fail(ErrorCode::unsupported, "cannot be read for quantising", subject, c.origins[i].from, std::string(to_string(job.dtype)));
    }
    if (choice == nullptr && is_block(job.dtype) && format::quantize::bits_per_weight(job.dtype) <= format::quantize::bits_per_weight(to->type)) {
      ++kept;
      continue;
    }
    if (job.shape.back() % dtype_info(to->type).block_elements != 0) {
      const DType wanted = to->type;
      to = format::quantize::find_format(to->short_rows);
      if (job.shape.back() % dtype_info(to->type).block_elements != 0) {
        c.warnings.push_back(fmt::format("{}: rows of {} are no whole blocks of {} and stay {}", job.name, job.shape.back(), to_string(wanted), to_string(job.dtype)));
        continue;
      }
      if (to->type == job.dtype) continue;
      ++substituted;
      substitute = fmt::format("{} for rows that are no whole blocks of {}", to_string(to->type), to_string(wanted));
    }
    if (is_block(job.dtype)) {
      if (requantized++ == 0) first_requantized = std::string(to_string(job.dtype));
      c.origins[i].action = "requantized";
    } else {
      c.origins[i].action = is_block(to->type) ? "quantized" : c.origins[i].action;
    }
    c.origins[i].from_dtype = job.dtype;
    quantize_job(c, i, *to);
  }
  if (requantized > 0) {
    c.warnings.push_back(fmt::format("{} tensors were quantised already ({}) and are quantised a second time: both errors add up", requantized, first_requantized));
  }
  if (kept > 0) c.warnings.push_back(fmt::format("{} tensors are in a block format that is as narrow already and stay as they are", kept));
  if (substituted > 0) c.warnings.push_back(fmt::format("{} tensors are {}", substituted, substitute));
  return {};
}

}  // namespace plumb::app
