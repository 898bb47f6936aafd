#include "kernels/api/pack.h"

#include <string>

#include "base/check.h"
#include "kernels/api/arg_check.h"

namespace plumb::kernels {

std::optional<WeightFormat> packed_format(WeightFormat stored) {
  switch (stored) {
    case WeightFormat::q8_0: return WeightFormat::q8_0_r8;
    case WeightFormat::q4_0: return WeightFormat::q4_0_r8;
    case WeightFormat::mxfp4:
    case WeightFormat::mxfp4_split: return WeightFormat::mxfp4_r8;
    case WeightFormat::iq4_nl: return WeightFormat::iq4_nl_r8;
    case WeightFormat::q4_1: return WeightFormat::q4_1_r8;
    case WeightFormat::nvfp4: return WeightFormat::nvfp4_r8;
    case WeightFormat::q4_k: return WeightFormat::q4_k_r8;
    case WeightFormat::q5_k: return WeightFormat::q5_k_r8;
    case WeightFormat::q6_k: return WeightFormat::q6_k_r8;
    default: return std::nullopt;
  }
}

WeightView packed_shape(const WeightView& stored, std::int32_t interleaved) {
  const auto format = packed_format(stored.format);
  PLUMB_CHECK(format.has_value() && interleaved >= 1);
  const WeightFormatTraits& t = traits(*format);
  WeightView to;
  to.format = *format;
  to.rows = stored.rows;
  to.cols = stored.cols;
  to.experts = stored.experts;
  const std::int64_t padded_rows = (std::int64_t{stored.rows} + t.group - 1) / t.group * t.group;
  to.row_stride = std::int64_t{stored.cols} / t.block * t.block_bytes * interleaved;
  to.expert_stride = padded_rows * to.row_stride;
  to.scale_row_stride = std::int64_t{stored.cols} / t.block * t.scale_bytes * interleaved;
  to.scale_expert_stride = padded_rows * to.scale_row_stride;
  return to;
}

Status check(const PackArgs& a) {
  return ArgCheck(PackArgs::kName)
      .present("data", a.data)
      .present("scales", a.scales)
      .unsupported(packed_format(a.from.format).has_value(), "from.format", std::to_string(static_cast<int>(a.from.format)),
                   "have a packed layout")
      .weight("from", a.from, true)
      .that(a.interleaved >= 1, "interleaved", a.interleaved, "be positive")
      .rows(a.rows)
      .that(a.rows <= a.from.experts, "rows", a.rows, "not be above from.experts")
      .that(!a.from.factors, "from.factors", 1, "be absent: a product takes them from where they are")
      .done();
}

device::Cost cost(const PackArgs& a) {
  const WeightView to = packed_shape(a.from);  // a matrix's own bytes, wherever they lie
  const auto rows = static_cast<std::uint64_t>(a.rows);
  return {.bytes_read = rows * static_cast<std::uint64_t>(a.from.rows) * weight_row_bytes(a.from),
          .bytes_written = rows * static_cast<std::uint64_t>(to.expert_stride + to.scale_expert_stride),
          .flops = 0};
}

}  // namespace plumb::kernels
