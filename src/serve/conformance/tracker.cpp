#include "serve/conformance/tracker.h"

#include <algorithm>
#include <string_view>

namespace plumb::conformance {
namespace {

// The path below src/, whatever the compiler was given.
std::string below_src(std::string_view path) {
  const auto at = path.rfind("src/");
  return std::string(at == std::string_view::npos ? path : path.substr(at + 4));
}

WriteSite describe(CellId id, const std::source_location& where) {
  return {id, below_src(where.file_name()), where.line(), where.function_name()};
}

}  // namespace

std::string WriteSite::name() const { return std::string(to_string(cell)) + " at " + file + ":" + std::to_string(line); }

void Tracker::on_read(CellId id, const void* cell, Activity activity) {
  ++reads_[static_cast<std::size_t>(id)][static_cast<std::size_t>(activity)];
  if (held_.empty()) return;
  stale_reads_ += static_cast<std::uint64_t>(std::count_if(held_.begin(), held_.end(), [&](const auto& h) { return h.first == cell; }));
}

CellObserver::Verdict Tracker::on_write(CellId id, const void* cell, Activity activity, const std::source_location& where) {
  ++writes_[static_cast<std::size_t>(id)][static_cast<std::size_t>(activity)];
  std::uint64_t*& count = known_[{id, where.file_name(), where.line()}];
  if (count == nullptr) count = &sites_[describe(id, where)];
  ++*count;
  apply_delayed(cell);  // writes of one cell keep their order
  if (mutation_.verdict == Verdict::apply || mutation_.site.cell != id || mutation_.site.line != where.line() ||
      mutation_.site.file != below_src(where.file_name()) || (mutation_.when && !mutation_.when())) {
    return Verdict::apply;
  }
  ++mutated_;
  return mutation_.verdict;
}

void Tracker::delayed(const void* cell, std::function<void()> apply) { held_.emplace_back(cell, std::move(apply)); }

void Tracker::forget(const void* cell) {
  std::erase_if(held_, [&](const auto& h) { return h.first == cell; });
}

void Tracker::apply_delayed(const void* cell) {
  for (std::size_t i = 0; i < held_.size();) {
    if (held_[i].first != cell) {
      ++i;
      continue;
    }
    const auto apply = std::move(held_[i].second);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    apply();
  }
}

void Tracker::release_delayed() {
  for (const auto& [cell, apply] : std::exchange(held_, {})) apply();
}

}  // namespace plumb::conformance
