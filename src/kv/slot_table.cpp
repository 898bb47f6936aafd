#include "kv/slot_table.h"

#include <utility>

#include "base/check.h"

namespace plumb::kv {
namespace {

std::vector<std::size_t> bases(const KvLayout& layout) {
  std::vector<std::size_t> base{0};
  for (const KvClass& c : layout.classes) {
    base.push_back(base.back() + static_cast<std::size_t>(c.geometry.sequences) * static_cast<std::size_t>(c.geometry.table_pages));
  }
  return base;
}

std::vector<std::int32_t> all_rows(std::int32_t rows) {
  std::vector<std::int32_t> free;
  for (std::int32_t row = rows - 1; row >= 0; --row) free.push_back(row);
  return free;
}

}  // namespace

SlotTable::SlotTable(const KvLayout& layout, const CellContext* context)
    : layout_(layout), rows_count_(layout.options.sequences), base_(bases(layout)), free_rows_(context, all_rows(rows_count_)),
      entries_(context, std::vector<PageId>(base_.back(), kernels::kNoPage)), dirty_(context), zero_(context) {}

std::size_t SlotTable::at(std::int32_t layer_class, std::int32_t row, std::int32_t index) const {
  const auto c = static_cast<std::size_t>(layer_class);
  PLUMB_DCHECK(row >= 0 && row < rows_count_ && index >= 0 && index < layout_.classes[c].geometry.table_pages);
  return base_[c] + static_cast<std::size_t>(row) * static_cast<std::size_t>(layout_.classes[c].geometry.table_pages) +
         static_cast<std::size_t>(index);
}

std::optional<std::int32_t> SlotTable::acquire_row() {
  if (free_rows_.get().empty()) return std::nullopt;
  const std::int32_t row = free_rows_.get().back();
  free_rows_.update([](auto& free) { free.pop_back(); });
  return row;
}

void SlotTable::release_row(std::int32_t row) {
  free_rows_.update([row](auto& free) { free.push_back(row); });
}

void SlotTable::set(std::int32_t layer_class, std::int32_t row, std::int32_t index, PageId page) {
  entries_.update([i = at(layer_class, row, index), page](auto& entries) { entries[i] = page; });
  dirty_.update([change = TableChange{layer_class, row, index, page}](auto& dirty) { dirty.push_back(change); });
}

void SlotTable::zero(std::int32_t layer_class, PageId page) {
  zero_.update([z = ZeroPage{layer_class, page}](auto& zero) { zero.push_back(z); });
}

void SlotTable::take(std::vector<TableChange>& changes, std::vector<ZeroPage>& zero) {
  changes.insert(changes.end(), dirty_.get().begin(), dirty_.get().end());
  zero.insert(zero.end(), zero_.get().begin(), zero_.get().end());
  if (!changes.empty()) dirty_.update([](auto& dirty) { dirty.clear(); });
  if (!zero.empty()) zero_.update([](auto& pages) { pages.clear(); });
}

void SlotTable::invalidate() {
  std::vector<TableChange> all;
  for (std::size_t c = 0; c < layout_.classes.size(); ++c) {
    const auto layer_class = static_cast<std::int32_t>(c);
    for (std::int32_t row = 0; row < rows_count_; ++row) {
      for (std::int32_t i = 0; i < layout_.classes[c].geometry.table_pages; ++i) {
        all.push_back({layer_class, row, i, entries_.get()[at(layer_class, row, i)]});
      }
    }
  }
  dirty_.set(std::move(all));
}

}  // namespace plumb::kv
