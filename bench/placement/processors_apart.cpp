// How far apart two processors are, while something else runs on them: of a virtual machine the host decides, and it changes its mind.
//
//   processors_apart [--cpus 0,1] [--every-ms 20]      until it is told to end (SIGTERM, SIGINT) or its output is closed
//
// One line of JSON for each measurement, {"t": seconds since 1970, "ns": nanoseconds}: how long a cache line takes from one processor to
// the other and back, the fastest of a few stretches. On an EPYC of Zen 4 50 to 120 ns are two cores of one core complex, 300 to 430 cores of
// two. Those of one complex share its link to memory, so the same program has little more than half the bandwidth there.
//
// Two threads, one tied to each processor, sleep to the same moment, meet, pass the line to and fro for some tens of microseconds and sleep
// again: with 20 ms between, a quarter of a percent of what runs beside them. They run before everything else where the system lets them
// (SCHED_FIFO). A meeting that one of them misses is left out.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <thread>

namespace {

constexpr int kStretches = 8;
constexpr int kTrips = 16;  // of a stretch
// Longer than this nobody waits for the other: it is late because something else has its processor.
constexpr std::int64_t kPatienceNs = 1'000'000;

volatile std::sig_atomic_t told_to_end = 0;

std::int64_t now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void sleep_until(std::int64_t ns) {
  const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0 && told_to_end == 0) {
  }
}

// The line. A meeting has numbers of its own, from `base`, so that one who comes late cannot take an old number for a new one.
struct alignas(128) Line {
  std::atomic<std::uint64_t> word{0};
};
Line there;
Line back;

bool wait_for(const Line& line, std::uint64_t value, std::int64_t end) {
  for (int i = 0; line.word.load(std::memory_order_acquire) != value; ++i) {
    if (i % 1024 == 1023 && now_ns(CLOCK_MONOTONIC) > end) return false;
  }
  return true;
}

// Round trips of meeting `base`; nanoseconds of one, or 0 when the other did not come.
double call(std::uint64_t base) {
  double best = std::numeric_limits<double>::max();
  std::uint64_t number = base;
  const std::int64_t end = now_ns(CLOCK_MONOTONIC) + kPatienceNs;
  for (int s = 0; s <= kStretches; ++s) {  // the first stretch is the meeting itself
    const std::int64_t start = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < kTrips; ++i) {
      there.word.store(++number, std::memory_order_release);
      if (!wait_for(back, number, end)) return 0;
    }
    if (s > 0) best = std::min(best, static_cast<double>(now_ns(CLOCK_MONOTONIC) - start) / kTrips);
  }
  return best;
}

void answer(std::uint64_t base) {
  const std::int64_t end = now_ns(CLOCK_MONOTONIC) + kPatienceNs;
  for (std::uint64_t number = base + 1; number <= base + (kStretches + 1) * kTrips; ++number) {
    if (!wait_for(there, number, end)) return;
    back.word.store(number, std::memory_order_release);
  }
}

void tie_to(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<unsigned>(cpu), &mask);
  if (pthread_setaffinity_np(pthread_self(), sizeof mask, &mask) != 0) {
    std::fprintf(stderr, "processors_apart: processor %d is not ours to use\n", cpu);
    std::exit(2);
  }
  const sched_param first{.sched_priority = 1};
  pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);  // without the right to, as everybody else
}

}  // namespace

int main(int argc, char** argv) {
  int cpus[2] = {0, 1};
  int every_ms = 20;
  for (int i = 1; i < argc; i += 2) {
    const bool has_value = i + 1 < argc;
    const bool good = has_value && ((std::strcmp(argv[i], "--cpus") == 0 && std::sscanf(argv[i + 1], "%d,%d", &cpus[0], &cpus[1]) == 2) ||
                                    (std::strcmp(argv[i], "--every-ms") == 0 && (every_ms = std::atoi(argv[i + 1])) > 0));
    if (!good || cpus[0] < 0 || cpus[1] < 0 || cpus[0] == cpus[1] || std::max(cpus[0], cpus[1]) >= CPU_SETSIZE) {
      std::fprintf(stderr, "usage: processors_apart [--cpus A,B] [--every-ms N]\n");
      return 2;
    }
  }
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { told_to_end = 1; });
  const std::int64_t start = now_ns(CLOCK_MONOTONIC);
  // Both count meetings by the clock: one that a late thread has missed is missed by that thread alone.
  const auto meet = [&](int cpu, auto&& at) {
    tie_to(cpu);
    while (told_to_end == 0) {
      const std::int64_t next = (now_ns(CLOCK_MONOTONIC) - start) / (every_ms * 1'000'000LL) + 1;
      sleep_until(start + next * every_ms * 1'000'000LL);
      if (told_to_end == 0) at(static_cast<std::uint64_t>(next) * 1024);
    }
  };
  std::thread other([&] { meet(cpus[1], answer); });
  meet(cpus[0], [](std::uint64_t base) {
    const double ns = call(base);
    if (ns == 0) return;
    std::printf("{\"t\": %.3f, \"ns\": %.0f}\n", static_cast<double>(now_ns(CLOCK_REALTIME)) * 1e-9, ns);
    if (std::fflush(stdout) != 0) told_to_end = 1;
  });
  other.join();
}
