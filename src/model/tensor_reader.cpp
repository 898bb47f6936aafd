#include "model/tensor_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/blocks.h"
#include "base/parse_limits.h"

namespace plumb::model {
namespace {

using kernels::WeightFormat;

// Element types that a kernel can multiply by. One row per type.
struct FormatRow {
  DType dtype;
  WeightFormat format;
};
constexpr FormatRow kFormats[] = {
    {DType::f32, WeightFormat::f32},   {DType::f16, WeightFormat::f16},   {DType::bf16, WeightFormat::bf16},
    {DType::q8_0, WeightFormat::q8_0}, {DType::q4_0, WeightFormat::q4_0}, {DType::mxfp4, WeightFormat::mxfp4},
    {DType::q4_1, WeightFormat::q4_1}, {DType::q4_k, WeightFormat::q4_k}, {DType::q5_k, WeightFormat::q5_k},
    {DType::q6_k, WeightFormat::q6_k}, {DType::iq4_nl, WeightFormat::iq4_nl}, {DType::nvfp4, WeightFormat::nvfp4},
};

std::optional<WeightFormat> weight_format(DType dtype) {
  for (const FormatRow& row : kFormats) {
    if (row.dtype == dtype) return row.format;
  }
  return std::nullopt;
}

Result<std::vector<float>> widen(const format::TensorView& t, const std::string& subject) {
  std::vector<float> values(t.elements());
  const std::byte* p = t.data.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    switch (t.dtype) {
      case DType::f32: std::memcpy(&values[i], p + 4 * i, 4); break;
      case DType::f16: std::memcpy(&half, p + 2 * i, 2); values[i] = blocks::f16_to_float(half); break;
      case DType::bf16: std::memcpy(&half, p + 2 * i, 2); values[i] = blocks::bf16_to_float(half); break;
      default:
        return fail(ErrorCode::unsupported, "a vector must be f32, f16 or bf16", subject, t.name, std::string(to_string(t.dtype)));
    }
  }
  return values;
}

}  // namespace

TensorReader::TensorReader(const format::Checkpoint& checkpoint)
    : checkpoint_(checkpoint), taken_(checkpoint.tensors().size(), false) {}

void TensorReader::ignore(std::string_view name) {
  if (const format::TensorView* t = checkpoint_.find(name)) taken_[static_cast<std::size_t>(t - checkpoint_.tensors().data())] = true;
}

Result<const format::TensorView*> TensorReader::take(const std::string& name, const std::vector<std::uint64_t>& shape) {
  PLUMB_ASSIGN(const format::TensorView* t, checkpoint_.require(name));
  ignore(name);
  if (t->shape != shape) {
    return fail(ErrorCode::shape_mismatch, "expected shape " + format::shape_text(shape), checkpoint_.subject(), name,
                format::shape_text(t->shape));
  }
  return t;
}

// In GGUF the scales stand between the codes, so this passes over nearly the whole file. Each tensor's pages are let go after
// it: what only inspects a model, or reads a part of it, never holds more than one tensor of it.
Status TensorReader::check_scales(const format::TensorView& tensor) const {
  const Status status = format::reject_nan_scales(tensor, checkpoint_.subject());
  checkpoint_.advise(MappedFile::Advice::release, tensor);
  return status;
}

Result<MatrixWeight> TensorReader::matrix(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  std::vector<std::uint64_t> shape;
  if (experts > 0) shape.push_back(static_cast<std::uint64_t>(experts));
  shape.push_back(static_cast<std::uint64_t>(rows));
  shape.push_back(static_cast<std::uint64_t>(cols));
  PLUMB_ASSIGN(const format::TensorView* t, take(name, shape));
  const std::optional<WeightFormat> format = weight_format(t->dtype);
  if (!format) {
    return fail(ErrorCode::unsupported, "no kernel multiplies by this element type", checkpoint_.subject(), name,
                std::string(to_string(t->dtype)));
  }
  if (t->dtype == DType::mxfp4 || t->dtype == DType::nvfp4) PLUMB_TRY(check_scales(*t));
  MatrixWeight w{.name = name, .data = t->data};
  w.view.format = *format;
  w.view.rows = static_cast<std::int32_t>(rows);
  w.view.cols = static_cast<std::int32_t>(cols);
  w.view.experts = experts > 0 ? static_cast<std::int32_t>(experts) : 1;
  w.view.row_stride = static_cast<std::int64_t>(kernels::weight_row_bytes(w.view));
  w.view.expert_stride = w.view.row_stride * rows;
  PLUMB_ASSIGN(w.factors, factors(name, w.view.experts));
  return w;
}

Result<VectorWeight> TensorReader::factors(const std::string& matrix, std::int64_t matrices) {
  constexpr std::string_view kWeight = ".weight";
  if (checkpoint_.container() != format::Container::gguf || !matrix.ends_with(kWeight)) return VectorWeight{};
  const std::string base = matrix.substr(0, matrix.size() - kWeight.size());
  ignore(base + ".input_scale");
  if (!has(base + ".scale")) return VectorWeight{};
  PLUMB_ASSIGN(VectorWeight found, vector(base + ".scale", matrices));
  for (const float factor : found.values) {
    if (!std::isfinite(factor)) {
      return fail(ErrorCode::malformed, "a factor of weights must be finite", checkpoint_.subject(), found.name, fmt::format("{}", factor));
    }
  }
  return found;
}

Result<MatrixWeight> TensorReader::split_mxfp4(const std::string& base, std::int64_t experts, std::int64_t rows, std::int64_t cols) {
  const auto e = static_cast<std::uint64_t>(experts);
  const auto r = static_cast<std::uint64_t>(rows);
  const auto blocks = static_cast<std::uint64_t>(cols / 32);
  PLUMB_ASSIGN(const format::TensorView* codes, take(base + "_blocks", {e, r, blocks, 16}));
  PLUMB_ASSIGN(const format::TensorView* scales, take(base + "_scales", {e, r, blocks}));
  for (const format::TensorView* t : {codes, scales}) {
    if (t->dtype != DType::u8) {
      return fail(ErrorCode::unsupported, "MXFP4 codes and scales must be u8", checkpoint_.subject(), t->name,
                  std::string(to_string(t->dtype)));
    }
  }
  PLUMB_TRY(check_scales(*scales));
  MatrixWeight w{.name = base, .data = codes->data, .scales = scales->data};
  w.view.format = WeightFormat::mxfp4_split;
  w.view.rows = static_cast<std::int32_t>(rows);
  w.view.cols = static_cast<std::int32_t>(cols);
  w.view.experts = static_cast<std::int32_t>(experts);
  w.view.row_stride = static_cast<std::int64_t>(blocks) * 16;
  w.view.expert_stride = w.view.row_stride * rows;
  w.view.scale_row_stride = static_cast<std::int64_t>(blocks);
  w.view.scale_expert_stride = w.view.scale_row_stride * rows;
  return w;
}

Result<VectorWeight> TensorReader::vector(const std::string& name, std::int64_t n) {
  PLUMB_ASSIGN(const format::TensorView* t, checkpoint_.require(name));
  ignore(name);
  if (t->elements() != static_cast<std::uint64_t>(n)) {
    return fail(ErrorCode::shape_mismatch, fmt::format("expected {} elements", n), checkpoint_.subject(), name,
                format::shape_text(t->shape));
  }
  PLUMB_ASSIGN(std::vector<float> values, widen(*t, checkpoint_.subject()));
  return VectorWeight{name, std::move(values)};
}

Status TensorReader::finish() const {
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (!taken_[i]) {
      const format::TensorView& t = checkpoint_.tensors()[i];
      return fail(ErrorCode::unexpected_tensor, "the model's configuration has no use for this tensor", checkpoint_.subject(),
                  t.name, std::string(to_string(t.dtype)) + " " + format::shape_text(t.shape));
    }
  }
  return {};
}

MatrixWeight interleaved(const MatrixWeight& both, int parity) {
  MatrixWeight w = both;
  w.view.rows = both.view.rows / 2;
  w.view.row_stride = both.view.row_stride * 2;
  w.data_offset = static_cast<std::uint64_t>(parity) * static_cast<std::uint64_t>(both.view.row_stride);
  w.view.scale_row_stride = both.view.scale_row_stride * 2;
  w.scales_offset = static_cast<std::uint64_t>(parity) * static_cast<std::uint64_t>(both.view.scale_row_stride);
  return w;
}

}  // namespace plumb::model
