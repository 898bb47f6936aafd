// Where the rows of a packed weight lie.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// One matrix of a packed WeightView, by groups of eight rows.
struct PackedRows {
  const std::byte* data;
  const std::byte* scales;
  std::int64_t group_bytes;
  std::int64_t scale_group_bytes;
  std::int64_t cols;

  PackedRows(const WeightView& w, std::int64_t expert)
      : data(w.data.get() + expert * w.expert_stride), scales(w.scales.get() + expert * w.scale_expert_stride),
        group_bytes(8 * w.row_stride), scale_group_bytes(8 * w.scale_row_stride), cols(w.cols) {}
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
