#include "quantize_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "format/quantize/quantize.h"
#include "quantize_fill.h"
#include "verb.h"

namespace plumb::app {
namespace {

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

// The name of the factors beside a matrix. REQUIRES: is_matrix.
std::string factors_name(const std::string& matrix) { return matrix.substr(0, matrix.size() - std::string_view("weight").size()) + "scale"; }

const TensorJob* find_job(const Conversion& c, const std::string& name) {
  const auto at = std::find_if(c.jobs.begin(), c.jobs.end(), [&](const TensorJob& job) { return job.name == name; });
  return at == c.jobs.end() ? nullptr : &*at;
}

// The factors that the source has beside a matrix; none where it has no such tensor.
std::vector<float> source_factors(const Conversion& c, const std::string& matrix) {
  const TensorJob* job = find_job(c, factors_name(matrix));
  if (job == nullptr) return {};
  std::vector<std::byte> stored(job->bytes());
  job->fill(0, stored);
  std::vector<float> out(*element_count(job->shape));
  format::quantize::decode_blocks(job->dtype, reinterpret_cast<const std::uint8_t*>(stored.data()), out.size(), out.data());
  return out;
}

void remove(Conversion& c, const std::string& name) {
  const TensorJob* job = find_job(c, name);
  if (job == nullptr) return;
  const auto i = job - c.jobs.data();
  c.jobs.erase(c.jobs.begin() + i);
  c.origins.erase(c.origins.begin() + i);
  c.refusals.erase(c.refusals.begin() + i);
  c.errors.erase(c.errors.begin() + i);
}

// Factors of a quantised tensor, to be written beside it.
struct AddedFactors {
  TensorJob job;
  Origin origin;
};

std::optional<AddedFactors> quantize_job(Conversion& c, std::size_t i, const Format& to) {
  TensorJob& job = c.jobs[i];
  const DTypeInfo& in = dtype_info(job.dtype);
  const DTypeInfo& info = dtype_info(to.type);
  const std::uint64_t granule = std::lcm(job.granule / in.block_bytes * in.block_elements, std::uint64_t{info.block_elements});
  const std::span<const std::uint64_t> shape(job.shape);
  const auto source = std::make_shared<const MatrixSource>(MatrixSource{.bytes = job.fill,
                                                                        .type = job.dtype,
                                                                        .matrices = *element_count(shape.first(shape.size() - 2)),
                                                                        .matrix_elements = *element_count(shape.last(2)),
                                                                        .factors = source_factors(c, job.name),
                                                                        .step = std::max<std::uint64_t>(kStep / granule, 1) * granule});
  const auto factors = std::make_shared<MatrixFactors>(source, to);
  if (c.refusals[i] == nullptr) c.refusals[i] = std::make_shared<std::atomic<bool>>(false);
  c.errors[i] = std::make_shared<ErrorTally>();
  job.fill = quantized_fill(source, to, factors, c.refusals[i], c.errors[i]);
  job.granule = granule / info.block_elements * info.block_bytes;
  job.dtype = to.type;
  if (to.full_scale == 0) return std::nullopt;
  return AddedFactors{.job = {factors_name(job.name), DType::f32, {source->matrices}, sizeof(float), factors_fill(factors)},
                      .origin = {c.origins[i].from, c.origins[i].from_dtype, "added"}};
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
  std::vector<std::string> applied;  // factors of the source that are in the numbers now
  std::vector<AddedFactors> added;
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
    applied.push_back(factors_name(job.name));
    if (auto factors = quantize_job(c, i, *to)) added.push_back(std::move(*factors));
  }
  for (const std::string& name : applied) remove(c, name);
  for (AddedFactors& factors : added) c.add(std::move(factors.job), std::move(factors.origin));
  if (requantized > 0) {
    c.warnings.push_back(fmt::format("{} tensors were quantised already ({}) and are quantised a second time: both errors add up", requantized, first_requantized));
  }
  if (kept > 0) c.warnings.push_back(fmt::format("{} tensors are in a block format that is as narrow already and stay as they are", kept));
  if (substituted > 0) c.warnings.push_back(fmt::format("{} tensors are {}", substituted, substitute));
  return {};
}

}  // namespace plumb::app
