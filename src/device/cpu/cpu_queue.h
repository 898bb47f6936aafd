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
  // Worker threads, 1..kMaxCpuThreads; 0 = one per physical core this process may use (usable_cores() of host_info.h). With
  // `inline_execution` there is one worker, the waiting thread.
  int threads = 0;
  // Each worker is tied to a physical core of its own: worker_cores() of topology.h. Not with inline_execution.
  bool pin = false;
  bool checked = false;  // guards and poison around every buffer
  // Run buffers on the thread that waits for them, in submission order; done() is always true, since a wait depends on nobody
  // else. With `hold`, a submitted buffer stays pending, and done() false, until release_next() runs it: how a simulation
  // makes a completion late. Waiting for a held buffer releases it and those before it, as time passes for a blocked host.
  bool inline_execution = false;
  bool hold = false;
  std::uint64_t memory_limit_bytes = 0;  // of all banks together; 0: what the process may use (DeviceInfo::memory_bytes)
  // A wait that lasts longer is deadline_exceeded and the device is lost; 0: none. An inline queue cannot be interrupted: it
  // looks at the time between launches, and an injected hang ends at once.
  std::uint64_t deadline_ms = 0;
};

inline constexpr int kMaxCpuThreads = 512;

class CpuQueue : public Queue {
 public:
  // Inline queues with `hold`: lets the oldest pending buffer run. Returns false when none is pending.
  virtual bool release_next() = 0;
};

// Errors: invalid_argument (threads out of range, hold without inline_execution, pin with it or with more threads than cores),
// internal (the system refused a thread or its core; names errno).
Result<std::unique_ptr<CpuQueue>> open_cpu_queue(const CpuQueueOptions& options);

}  // namespace plumb::device
