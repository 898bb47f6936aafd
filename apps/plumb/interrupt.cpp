#include "interrupt.h"

#include <unistd.h>

#include <csignal>

#include "base/check.h"
#include "base/status.h"
#include "exit_code.h"

namespace plumb::app {
namespace {

// A signal handler can reach nothing but statics.
volatile std::sig_atomic_t signals = 0;
bool guarded = false;
struct sigaction previous_interrupt;
struct sigaction previous_terminate;

void on_signal(int) {
  if (signals != 0) ::_exit(static_cast<int>(ExitCode::interrupted));
  signals = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  PLUMB_CHECK(!guarded);
  guarded = true;
  signals = 0;
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &previous_interrupt);
  ::sigaction(SIGTERM, &action, &previous_terminate);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &previous_interrupt, nullptr);
  ::sigaction(SIGTERM, &previous_terminate, nullptr);
  guarded = false;
}

bool InterruptGuard::interrupted() const { return signals != 0; }
void InterruptGuard::clear() { signals = 0; }

Error interrupted_error() { return fail(ErrorCode::cancelled, "stopped by a signal"); }

}  // namespace plumb::app
