// Tying a worker thread to a core.
#pragma once

#include <pthread.h>

#include "base/status.h"

namespace plumb::device {

// Ties thread `index` of `threads` to core `index` of worker_cores(cpu_topology(), threads). Errors: invalid_argument (fewer cores than
// threads), internal (the system refused; names errno). REQUIRES: 0 <= index < threads.
Status pin_thread(pthread_t thread, int index, int threads);

}  // namespace plumb::device
