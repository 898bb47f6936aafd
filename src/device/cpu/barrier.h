// The barrier between two launches of a job list.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/cpu/event_word.h"

namespace plumb::device {

// All `count` threads arrive; the last one runs a function while the others still wait, then all go on. The function is
// where a launch is settled: counted faults, time stamps, the decision to stop. Nobody else touches the buffer meanwhile.
// Thread rule: exactly `count` threads use it, each with an index of its own in [0, count) and a memory of its own.
//
// Arrivals are counted in a tree: up to kFan threads share a counter, and the last of them arrives at the counter above. One counter
// for all would go from core to core once for each of them, about 70 ns a time between the cores of a server.
class Barrier {
 public:
  static constexpr std::uint32_t kFan = 4;

  // `pause_us`: how long to wait without giving up the core.
  Barrier(int count, std::uint32_t pause_us) : count_(static_cast<std::uint32_t>(count)), pause_us_(pause_us) {
    std::uint32_t nodes = 0;
    for (std::uint32_t width = count_; width > 1; width = above(width)) nodes += above(width);
    nodes_ = std::make_unique<Node[]>(nodes);
    std::uint32_t first = 0;  // of the level
    for (std::uint32_t width = count_; width > 1; width = above(width)) {
      const std::uint32_t level = above(width);
      for (std::uint32_t i = 0; i < level; ++i) {
        nodes_[first + i].wanted = i + 1 < level ? kFan : width - i * kFan;
        nodes_[first + i].parent = level > 1 ? first + level + i / kFan : kRoot;
      }
      first += level;
    }
  }

  template <class F>
  void arrive(int index, SpinMemory& memory, F&& last) {
    if (count_ == 1) {
      last();
      return;
    }
    const std::uint32_t generation = generation_.load();  // cannot move before this thread has arrived
    std::uint32_t at = static_cast<std::uint32_t>(index) / kFan;
    for (;;) {
      Node& node = nodes_[at];
      if (node.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != node.wanted) {
        generation_.wait_while(generation, pause_us_, memory);
        return;
      }
      node.arrived.store(0, std::memory_order_relaxed);  // nobody comes here again before the generation advances
      if (node.parent == kRoot) break;
      at = node.parent;
    }
    last();
    generation_.advance();
  }

 private:
  static constexpr std::uint32_t kRoot = ~std::uint32_t{0};
  static constexpr std::uint32_t above(std::uint32_t width) { return (width + kFan - 1) / kFan; }

  // Two lines apart (the prefetcher fetches pairs): arrivals must not disturb each other nor those who wait.
  struct alignas(128) Node {
    std::atomic<std::uint32_t> arrived{0};
    std::uint32_t wanted = 0;
    std::uint32_t parent = kRoot;
  };
  std::unique_ptr<Node[]> nodes_;  // level by level, the threads' own first
  alignas(128) EventWord generation_;
  alignas(128) std::uint32_t count_;
  std::uint32_t pause_us_;
};

}  // namespace plumb::device
