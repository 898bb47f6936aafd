#include "device/cpu/cpu_kernel.h"

#include <thread>
#include <tuple>

namespace plumb::device {

void FaultSink::fold() {
  if (pending.count == 0) return;
  if (seen.count == 0) {
    seen = pending;
  } else {
    seen.count += pending.count;
  }
  pending = {};
}

void Worker::await(std::int64_t tasks) const {
  // The task waited for is running, unless its thread has lost its core: then the core is given up too.
  for (int spins = 0; ticket_->load(std::memory_order_acquire) / kFinished < tasks; ++spins) {
    if (spins > 1000) std::this_thread::yield();
  }
}

void Worker::report(std::int64_t value, std::int64_t limit, FaultKind kind, std::int64_t row) {
  while (faults_->lock.test_and_set(std::memory_order_acquire)) {
  }
  FaultWord& word = faults_->pending;
  // The smallest of a launch, not the earliest: the report must not depend on which thread came first.
  if (word.count == 0 || std::tuple(value, limit, kind, row) < std::tuple(word.value, word.limit, word.kind, std::int64_t{word.row})) {
    word.launch = launch_;
    word.kind = kind;
    word.value = value;
    word.limit = limit;
    word.row = static_cast<std::int32_t>(row);
  }
  ++word.count;
  faults_->lock.clear(std::memory_order_release);
}

}  // namespace plumb::device
