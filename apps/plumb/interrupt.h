// Ctrl-C: the first asks, the second ends the program.
#pragma once

#include "plumb/status.h"

namespace plumb::app {

// While one of these lives, SIGINT and SIGTERM set a flag instead of ending the program; a second signal ends it at once
// with ExitCode::interrupted. The handlers from before come back at the end. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // A signal has come since the guard was made, or since the last clear().
  bool interrupted() const;
  void clear();
};

// What a verb returns when it stops for Ctrl-C; main answers with ExitCode::interrupted.
Error interrupted_error();

}  // namespace plumb::app
