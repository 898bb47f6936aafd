// StepClock: which steps have been launched and which have settled. Written by the StepBook alone; the pools read it, so that
// no page goes to a new owner while a launched step may still touch it.
#pragma once

#include <cstdint>

#include "base/cell.h"

namespace plumb::kv {

struct StepClock {
  explicit StepClock(const CellContext* context) : launched(context), settled(context) {}
  Cell<CellId::clock_launched, std::uint64_t> launched;  // 0: none yet
  Cell<CellId::clock_settled, std::uint64_t> settled;
};

}  // namespace plumb::kv
