// kv_append: writes row r's K and V into the cell of (sequences[r], positions[r]), in the form of the cache: f16 and bf16 rounded to
// nearest even, q8 as KvFormat says.
//
// A row whose sequence is -1 is not written: the class keeps what it already holds there (a window rebuild recomputes sliding
// layers over positions whose full-attention rows are shared and must not change).
//
// REQUIRES of the batch: no two rows name the same cell; every cell's page is reserved. A page table entry that is kNoPage or
// outside the pool is counted and the row is not written anywhere.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/kv_view.h"

namespace plumb::kernels {

struct KvAppendArgs {
  static constexpr const char* kName = "kv_append";
  KvView kv;
  Ref<const float> k;                  // [rows][kv_heads][head_dim], already rotated
  Ref<const float> v;                  // [rows][kv_heads][head_dim]
  Ref<const std::int32_t> positions;   // [rows]
  Ref<const std::int32_t> sequences;   // [rows]; -1: skip the row
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, KvAppendArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit_kv(a.kv, Access::write, visit);
  visit(OperandInfo{"new_k", Access::read, rows * kv_row_elements(a.kv) * 4}, a.k);
  visit(OperandInfo{"new_v", Access::read, rows * kv_row_elements(a.kv) * 4}, a.v);
  visit(OperandInfo{"positions", Access::read, rows * 4}, a.positions);
  visit(OperandInfo{"sequences", Access::read, rows * 4}, a.sequences);
}
Status check(const KvAppendArgs& a);
device::Cost cost(const KvAppendArgs& a);

}  // namespace plumb::kernels
