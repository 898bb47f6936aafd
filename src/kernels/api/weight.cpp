#include "kernels/api/weight.h"

#include "base/check.h"
#include "kernels/api/arg_check.h"

namespace plumb::kernels {
namespace {

std::uint64_t extent(const WeightView& w, std::int64_t expert_stride, std::int64_t row_stride, int unit_bytes) {
  const WeightFormatTraits& t = traits(w.format);
  const std::int64_t row = std::int64_t{w.cols / t.block} * unit_bytes;
  const std::int64_t groups = (std::int64_t{w.rows} + t.group - 1) / t.group;
  return static_cast<std::uint64_t>((w.experts - 1) * expert_stride + (groups - 1) * t.group * row_stride + t.group * row);
}

}  // namespace

const WeightFormatTraits& traits(WeightFormat format) {
  const auto index = static_cast<std::size_t>(format);
  PLUMB_CHECK(index < kWeightTraits.size());
  return kWeightTraits[index];
}

std::uint64_t weight_row_bytes(const WeightView& w) {
  const WeightFormatTraits& t = traits(w.format);
  return static_cast<std::uint64_t>(w.cols / t.block) * static_cast<std::uint64_t>(t.block_bytes + t.scale_bytes);
}

std::uint64_t weight_data_extent(const WeightView& w) {
  return extent(w, w.expert_stride, w.row_stride, traits(w.format).block_bytes);
}

std::uint64_t weight_scales_extent(const WeightView& w) {
  return extent(w, w.scale_expert_stride, w.scale_row_stride, traits(w.format).scale_bytes);
}

ArgCheck& ArgCheck::weight(const char* field, const WeightView& w, bool stacked) {
  const auto name = [&](const char* part) { return std::string(field) + "." + part; };
  const auto require = [&](bool holds, const char* part, std::int64_t value, const char* must) {
    if (!holds) refuse(ErrorCode::invalid_argument, name(part).c_str(), std::to_string(value), must);
  };
  const auto format = static_cast<std::int64_t>(w.format);
  require(format < kWeightFormatCount, "format", format, "be a known weight format");
  if (!ok_) return *this;
  const WeightFormatTraits& t = traits(w.format);
  present(field, w.data);
  require(w.rows > 0, "rows", w.rows, "be positive");
  require(w.cols > 0, "cols", w.cols, "be positive");
  require(w.cols % t.block == 0, "cols", w.cols, "be a whole number of blocks");
  require(stacked ? w.experts > 0 : w.experts == 1, "experts", w.experts, stacked ? "be positive" : "be 1");
  const std::int64_t blocks = w.cols / t.block;
  if (t.group > 1) {
    const std::int64_t padded = (std::int64_t{w.rows} + t.group - 1) / t.group * t.group;
    require(static_cast<bool>(w.scales), "scales", 0, "be given: the format keeps its scales apart");
    require(w.row_stride > 0 && w.row_stride % (blocks * t.block_bytes) == 0, "row_stride", w.row_stride,
            "be a whole number of rows: other matrices' groups may lie between those of a packed one");
    require(w.scale_row_stride * t.block_bytes == w.row_stride * t.scale_bytes, "scale_row_stride", w.scale_row_stride,
            "leave as many rows between as row_stride");
    require(w.experts == 1 || w.expert_stride >= padded * w.row_stride, "expert_stride", w.expert_stride, "hold whole groups of rows");
    require(w.experts == 1 || w.scale_expert_stride >= padded * w.scale_row_stride, "scale_expert_stride", w.scale_expert_stride,
            "hold whole groups of rows");
    return *this;
  }
  require(w.rows == 1 || w.row_stride >= blocks * t.block_bytes, "row_stride", w.row_stride, "hold one row");
  require(w.experts == 1 || w.expert_stride >= blocks * t.block_bytes, "expert_stride", w.expert_stride, "hold one row");
  if (t.scale_bytes == 0) {
    require(!w.scales, "scales", 1, "be absent: the format keeps its scales in its blocks");
    return *this;
  }
  require(static_cast<bool>(w.scales), "scales", 0, "be given: the format keeps its scales apart");
  require(w.rows == 1 || w.scale_row_stride >= blocks * t.scale_bytes, "scale_row_stride", w.scale_row_stride, "hold one row");
  require(w.experts == 1 || w.scale_expert_stride >= blocks * t.scale_bytes, "scale_expert_stride", w.scale_expert_stride,
          "hold one row");
  return *this;
}

}  // namespace plumb::kernels
