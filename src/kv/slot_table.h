// SlotTable: where every position of every running sequence lives.
//
// The host's copy of the device's page tables. A row belongs to one sequence; entry (class, row, index) is the page that
// serves the positions a residency maps there, or kNoPage, never a stale page. Changes are gathered and uploaded with the next
// step, in order. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/cell.h"
#include "kv/layout.h"
#include "kv/page_pool.h"

namespace plumb::kv {

// One entry of the device's page tables that must change before the next forward.
struct TableChange {
  std::int32_t layer_class = 0;
  std::int32_t row = 0;
  std::int32_t index = 0;
  PageId page = kernels::kNoPage;
  bool operator==(const TableChange&) const = default;
};

// A page that must be zeroed before the next forward.
struct ZeroPage {
  std::int32_t layer_class = 0;
  PageId page = kernels::kNoPage;
};

class SlotTable {
 public:
  // `layout` outlives the table; `context` may be null.
  explicit SlotTable(const KvLayout& layout, const CellContext* context = nullptr);

  // A row nobody owns, all its entries kNoPage; nullopt when all are taken.
  std::optional<std::int32_t> acquire_row();
  // REQUIRES: every entry of the row is kNoPage.
  void release_row(std::int32_t row);

  void set(std::int32_t layer_class, std::int32_t row, std::int32_t index, PageId page);
  void zero(std::int32_t layer_class, PageId page);

  // What the next step must upload; empties both lists.
  void take(std::vector<TableChange>& changes, std::vector<ZeroPage>& zero);
  // The device's tables are unknown (a step failed): every entry is uploaded again with the next step.
  void invalidate();

  std::int32_t rows() const { return rows_count_; }
  std::int32_t free_rows() const { return static_cast<std::int32_t>(free_rows_.get().size()); }
  // For checkers: what a forward launched now would find.
  PageId peek(std::int32_t layer_class, std::int32_t row, std::int32_t index) const {
    return entries_.peek()[at(layer_class, row, index)];
  }
  const std::vector<std::int32_t>& peek_free_rows() const { return free_rows_.peek(); }
  const std::vector<TableChange>& peek_dirty() const { return dirty_.peek(); }

 private:
  std::size_t at(std::int32_t layer_class, std::int32_t row, std::int32_t index) const;

  const KvLayout& layout_;
  const std::int32_t rows_count_;
  const std::vector<std::size_t> base_;  // first entry of each class
  Cell<CellId::slots_rows, std::vector<std::int32_t>> free_rows_;
  Cell<CellId::slots_entries, std::vector<PageId>> entries_;
  Cell<CellId::slots_dirty, std::vector<TableChange>> dirty_;
  Cell<CellId::slots_zero, std::vector<ZeroPage>> zero_;
};

}  // namespace plumb::kv
