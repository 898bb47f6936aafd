// Tying a worker thread to a core.
#pragma once

#include <pthread.h>

#include "base/status.h"

namespace plumb::device {

// Ties thread `index` of a queue to core `index` of cpu_topology().cores. Errors: invalid_argument (fewer cores than that), internal
// (the system refused; names errno).
Status pin_thread(pthread_t thread, int index);

}  // namespace plumb::device
