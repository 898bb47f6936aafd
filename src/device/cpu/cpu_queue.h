// A queue whose device is this machine's own cores.
//
// Worker threads belong to the queue. A command buffer is one job list: every worker walks it, with a barrier between
// launches, so a step costs one wake-up and not one per op. Submissions run in order.
#pragma once

#include <cstdint>
#include <memory>

#include "device/queue.h"

namespace plumb::device {

struct CpuQueueOptions {
  // Worker threads; 0 = one per core this process may use. With `inline_execution` the caller's thread is the only worker.
  int threads = 0;
  bool checked = false;  // guards and poison around every buffer
  // Run buffers on the thread that waits for them, in submission order. With `hold`, a submitted buffer stays pending until
  // release_next(): how the simulation makes a completion late.
  bool inline_execution = false;
  bool hold = false;
  std::uint64_t memory_limit_bytes = 0;  // 0: no limit of our own; reservations are refused by the system only
  std::uint64_t deadline_ms = 0;         // a wait that lasts longer is deadline_exceeded and the device is lost; 0: none
};

class CpuQueue : public Queue {
 public:
  // Inline queues with `hold`: lets the oldest pending buffer run. Returns false when none is pending.
  virtual bool release_next() = 0;
};

// Errors: invalid_argument (threads out of range), internal (the system refused a thread; names errno).
Result<std::unique_ptr<CpuQueue>> open_cpu_queue(const CpuQueueOptions& options);

}  // namespace plumb::device
