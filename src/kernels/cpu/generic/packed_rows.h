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

// Calls run<rows>(), 1 <= rows <= 8: the kernels of a tile know how many rows it has when they are compiled.
template <class Run>
inline void with_row_count(int rows, Run&& run) {
  switch (rows) {
    case 1: return run.template operator()<1>();
    case 2: return run.template operator()<2>();
    case 3: return run.template operator()<3>();
    case 4: return run.template operator()<4>();
    case 5: return run.template operator()<5>();
    case 6: return run.template operator()<6>();
    case 7: return run.template operator()<7>();
    case 8: return run.template operator()<8>();
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
