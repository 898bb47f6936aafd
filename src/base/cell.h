// Tracked cells: state that outlives a step, with its reads and writes visible to an observer.
//
// Every mutable member of a request, pool, tree, book or scheduler is a Cell. With an observer attached to the engine's
// CellContext each read and write is reported, and the observer may drop or delay a write: that is how the contract's mutants
// are made. Without one, an access costs one predictable branch.
//
// Thread rule: cells belong to the thread that drives their engine.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <utility>

#include "base/cell_id.h"

namespace plumb {

// `cell` is the address of the cell: which instance was touched.
class CellObserver {
 public:
  enum class Verdict : std::uint8_t { apply, drop, delay };
  virtual ~CellObserver() = default;
  virtual void on_read(CellId id, const void* cell, Activity activity) = 0;
  virtual Verdict on_write(CellId id, const void* cell, Activity activity, const std::source_location& site) = 0;
  // After the verdict `delay`: `apply` is to be run later, or never when forget() comes first.
  virtual void delayed(const void* cell, std::function<void()> apply) = 0;
  // The cell is gone.
  virtual void forget(const void* cell) = 0;
};

// Shared by all cells of one engine; outlives them.
struct CellContext {
  CellObserver* observer = nullptr;  // null in normal runs
  Activity activity = Activity::intake;
};

// Names what is being done until the end of the scope.
class ActivityScope {
 public:
  ActivityScope(CellContext& context, Activity activity) : context_(context), before_(context.activity) {
    context.activity = activity;
  }
  ~ActivityScope() { context_.activity = before_; }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  CellContext& context_;
  Activity before_;
};

// One value. Closures given to update() may run later than the call (a delayed write), so they capture by value.
template <CellId kId, class T>
class Cell {
 public:
  // `context` may be null: a cell outside any engine.
  explicit Cell(const CellContext* context, T initial = {}) : value_(std::move(initial)), context_(context) {}
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  ~Cell() {
    if (observed()) [[unlikely]] context_->observer->forget(this);
  }

  const T& get() const {
    if (observed()) [[unlikely]] context_->observer->on_read(kId, this, context_->activity);
    return value_;
  }
  void set(T value, const std::source_location& site = std::source_location::current()) {
    if (!observed()) [[likely]] {
      value_ = std::move(value);
    } else {
      observed_write(site, [this, v = std::move(value)]() mutable { value_ = std::move(v); });
    }
  }
  // Changes the value in place: f(T&). A write, not a read: what the change depends on is read with get() before.
  template <class F>
  void update(F f, const std::source_location& site = std::source_location::current()) {
    if (!observed()) [[likely]] {
      f(value_);
    } else {
      observed_write(site, [this, f = std::move(f)]() mutable { f(value_); });
    }
  }
  // For checkers and reports: not an access of the program.
  const T& peek() const { return value_; }

 private:
  bool observed() const { return context_ != nullptr && context_->observer != nullptr; }
  template <class F>
  void observed_write(const std::source_location& site, F apply) {
    switch (context_->observer->on_write(kId, this, context_->activity, site)) {
      case CellObserver::Verdict::apply: apply(); break;
      case CellObserver::Verdict::drop: break;
      case CellObserver::Verdict::delay: {
        const auto later = std::make_shared<F>(std::move(apply));
        context_->observer->delayed(this, [later] { (*later)(); });
      }
    }
  }

  T value_;
  const CellContext* context_;
};

// State that only the device writes, from a bit of the plan. The host notes here that it asked for the write, and that it uses
// what was written; the observer may take the bit away. A device write has no later moment, so a delayed one is a dropped one.
template <CellId kId>
class DeviceCell {
 public:
  explicit DeviceCell(const CellContext* context) : context_(context) {}
  // Whether to set the bit.
  bool write(const std::source_location& site = std::source_location::current()) const {
    if (context_ == nullptr || context_->observer == nullptr) [[likely]] return true;
    return context_->observer->on_write(kId, this, context_->activity, site) == CellObserver::Verdict::apply;
  }
  void read() const {
    if (context_ != nullptr && context_->observer != nullptr) [[unlikely]] context_->observer->on_read(kId, this, context_->activity);
  }

 private:
  const CellContext* context_;
};

}  // namespace plumb
