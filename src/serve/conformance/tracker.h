// Tracker: listens to every cell of an engine, and makes mutants by taking writes away or holding them back.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/cell.h"

namespace plumb::conformance {

// One place in the program that writes one cell. `ahead`: while a step was being chained (so that a write can be deleted in one
// loop's chained steps alone).
struct WriteSite {
  CellId cell;
  std::string file;
  std::uint32_t line = 0;
  std::string function;
  auto operator<=>(const WriteSite&) const = default;
  std::string name() const;  // "pool_free at kv/page_pool.cpp:31"
};

struct Mutation {
  WriteSite site;
  CellObserver::Verdict verdict = CellObserver::Verdict::apply;  // drop or delay
  std::function<bool()> when;  // empty: always
};

class Tracker final : public CellObserver {
 public:
  // Accesses, by cell and activity.
  using Counts = std::array<std::array<std::uint64_t, kActivityCount>, kCellCount>;

  void on_read(CellId id, const void* cell, Activity activity) override;
  Verdict on_write(CellId id, const void* cell, Activity activity, const std::source_location& site) override;
  void delayed(const void* cell, std::function<void()> apply) override;
  void forget(const void* cell) override;

  void mutate(Mutation mutation) { mutation_ = std::move(mutation); }
  // Applies what is held back. The driver calls it after every turn.
  void release_delayed();

  const Counts& reads() const { return reads_; }
  const Counts& writes() const { return writes_; }
  const std::map<WriteSite, std::uint64_t>& sites() const { return sites_; }
  std::uint64_t mutated() const { return mutated_; }           // writes taken away or held back
  std::uint64_t stale_reads() const { return stale_reads_; }   // reads of a cell while a write to it was held back

 private:
  void apply_delayed(const void* cell);

  Counts reads_{};
  Counts writes_{};
  std::map<WriteSite, std::uint64_t> sites_;
  std::map<std::tuple<CellId, const char*, std::uint32_t>, std::uint64_t*> known_;  // sites by the pointers they come with
  Mutation mutation_;
  std::vector<std::pair<const void*, std::function<void()>>> held_;
  std::uint64_t mutated_ = 0;
  std::uint64_t stale_reads_ = 0;
};

}  // namespace plumb::conformance
