// Residency: which positions of a sequence a layer class keeps, and where. A type, not a number.
//
// The capacity of a page table and the indexing that makes that capacity legal live in one class, so a window-sized table
// with absolute indexing cannot be written. A position (what RoPE sees) is a kernels::Position; where it is kept is a TableCell;
// neither converts to the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/check.h"
#include "kernels/api/row_batch.h"

namespace plumb::kv {

using kernels::Position;

// Rows per page. 16 rows of a 64-wide f32 head are 4 KiB: one memory page, long enough to stream, short enough that a prefix
// rounds down by little. Power of two, so that kernels shift.
inline constexpr std::int32_t kPageRows = 16;

// Where a position lives in a sequence's page table.
struct TableCell {
  std::int32_t table_index = 0;  // entry of the page table
  std::int32_t row = 0;          // row inside the page
};

constexpr std::int32_t pages_for(std::int32_t rows) { return (rows + kPageRows - 1) / kPageRows; }

// Keeps every position below max_seq.
class FullResidency {
 public:
  explicit FullResidency(std::int32_t max_seq) : max_seq_(max_seq) { PLUMB_CHECK(max_seq > 0); }
  std::int32_t window() const { return 0; }
  std::int32_t table_pages() const { return pages_for(max_seq_); }
  std::int32_t max_seq() const { return max_seq_; }
  // First position whose row must still be held when `length` positions have been computed.
  std::int32_t first_live(std::int32_t /*length*/) const { return 0; }
  // REQUIRES: 0 <= position < max_seq.
  TableCell cell(Position p) const {
    PLUMB_CHECK(p.value >= 0 && p.value < max_seq_);
    return {p.value / kPageRows, p.value % kPageRows};
  }

 private:
  std::int32_t max_seq_;
};

// Keeps the last `window - 1` positions, and room for the rows of one step and of the steps chained behind it.
//
// While a step computes positions [n, n + rows) the rows [n - window + 1, n + rows) are all live, and up to `depth` more
// steps may have been launched: slack is at least the rows of a chunk plus the chain depth. The ring is whole pages, and one
// page longer than that span because the span need not start at a page boundary.
class WindowResidency {
 public:
  WindowResidency(std::int32_t window, std::int32_t slack) : window_(window), slack_(slack) {
    PLUMB_CHECK(window > 0 && slack > 0);
  }
  std::int32_t window() const { return window_; }
  std::int32_t slack() const { return slack_; }
  std::int32_t table_pages() const { return pages_for(window_ - 1 + slack_) + 1; }
  std::int32_t first_live(std::int32_t length) const { return std::max(0, length - (window_ - 1)); }
  // REQUIRES: position >= 0. Positions table_pages * kPageRows apart share a cell.
  TableCell cell(Position p) const {
    PLUMB_CHECK(p.value >= 0);
    return {p.value / kPageRows % table_pages(), p.value % kPageRows};
  }

 private:
  std::int32_t window_;
  std::int32_t slack_;
};

class Residency {
  template <class F>
  auto visit(F f) const { return std::visit(f, r_); }

 public:
  Residency(FullResidency r) : r_(r) {}    // NOLINT(google-explicit-constructor)
  Residency(WindowResidency r) : r_(r) {}  // NOLINT(google-explicit-constructor)

  std::int32_t window() const { return visit([](const auto& r) { return r.window(); }); }
  std::int32_t table_pages() const { return visit([](const auto& r) { return r.table_pages(); }); }
  std::int32_t first_live(std::int32_t length) const { return visit([&](const auto& r) { return r.first_live(length); }); }
  TableCell cell(Position p) const { return visit([&](const auto& r) { return r.cell(p); }); }
  bool full() const { return std::holds_alternative<FullResidency>(r_); }

 private:
  std::variant<FullResidency, WindowResidency> r_;
};

}  // namespace plumb::kv
