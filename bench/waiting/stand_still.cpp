// Stands in for a crowded host: put before libc (LD_PRELOAD), it makes the threads of a program stand still now and then, as a guest's
// processors do when the host gives theirs to somebody else, and makes waking a thread dear, as it is for a processor that was halted.
//
//   STAND_STILL_US=1000    how long a thread stands still, on average (0.2 to 1.8 times that); 0: never
//   STAND_STILL_MS=30      how often, on average: the time between two stops of a thread
//   WAKE_US=120            how much later a thread returns from a futex that it was woken from (0.5 to 1.5 times that)
//   WAKER_US=5             how long the waker is busy with each thread that it wakes
//
// What it does not show: a host takes several processors at once, and gives a halted one's back late. Programs whose run-time library
// calls the kernel without libc's syscall() (OpenMP) stand still, but are woken at the usual cost.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>

namespace {

double setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atof(text) : 0;
}

struct Settings {
  double stop_us = setting("STAND_STILL_US");
  double between_ms = setting("STAND_STILL_MS");
  double wake_us = setting("WAKE_US");
  double waker_us = setting("WAKER_US");
};
const Settings& settings() {
  static const Settings all;
  return all;
}

int stop_signal() { return SIGRTMIN + 5; }

std::uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

void busy_us(double us) {
  const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(us * 1000);
  while (now_ns() < end) {
  }
}

// Of one thread.
struct Stops {
  timer_t timer{};
  bool ready = false;
  std::minstd_rand random;

  double around(double mean, double from, double to) { return mean * std::uniform_real_distribution(from, to)(random); }
  void set_next() {
    const auto ns = static_cast<long>(around(settings().between_ms, 0.1, 1.9) * 1e6);
    const itimerspec when{{}, {ns / 1'000'000'000, ns % 1'000'000'000}};
    timer_settime(timer, 0, &when, nullptr);
  }
  void begin() {
    const auto id = static_cast<pid_t>(gettid());
    random.seed(static_cast<unsigned>(id));
    if (settings().stop_us <= 0 || settings().between_ms <= 0) return;
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = stop_signal();
    event._sigev_un._tid = id;
    ready = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (ready) set_next();
  }
  void end() {
    if (ready) timer_delete(timer);
    ready = false;
  }
};
thread_local Stops stops;

void stand_still(int /*signal*/) {
  const int kept = errno;
  if (stops.ready) {
    busy_us(stops.around(settings().stop_us, 0.2, 1.8));
    stops.set_next();
  }
  errno = kept;
}

[[gnu::constructor]] void install() {
  settings();
  struct sigaction action {};
  action.sa_handler = &stand_still;
  action.sa_flags = SA_RESTART;
  sigaction(stop_signal(), &action, nullptr);
}

struct Start {
  void* (*run)(void*);
  void* argument;
};
void* run_with_stops(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  stops.begin();
  void* const result = start->run(start->argument);
  stops.end();
  return result;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  auto start = std::make_unique<Start>(Start{run, argument});
  const int error = real(thread, attributes, &run_with_stops, start.get());
  if (error == 0) start.release();  // the thread's now
  return error;
}

extern "C" long syscall(long number, ...) {
  static const auto real = reinterpret_cast<decltype(&syscall)>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number != SYS_futex || result < 0) return result;
  const int kept = errno;
  const auto operation = static_cast<int>(a[1]) & FUTEX_CMD_MASK;
  if (operation == FUTEX_WAIT) busy_us(stops.around(settings().wake_us, 0.5, 1.5));
  if (operation == FUTEX_WAKE) busy_us(settings().waker_us * static_cast<double>(result));
  errno = kept;
  return result;
}
