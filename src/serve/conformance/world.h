// World: a really opened engine on a virtual clock and a device that runs on the driving thread, put through seeded workloads.
//
// A workload is plain data: what happens at which turn. The same workload on the same options gives the same run, to the bit, so
// a failing seed is replayed by its number and shrunk by leaving out what does not matter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plumb/plumb.h"
#include "serve/conformance/auditor.h"
#include "serve/conformance/tracker.h"
#include "serve/engine_impl.h"

namespace plumb::conformance {

enum class Deed : std::uint8_t { ask, abort, pause, resume, flush, fault, no_memory, late };
const char* to_string(Deed deed);

struct Happening {
  std::int32_t turn = 0;
  Deed deed = Deed::ask;
  Request request;         // ask
  std::int32_t of = 0;     // abort: which of the workload's requests (by number of `ask`)
  std::uint64_t nth = 0;   // fault: which launch from now fails; late: completions held back until then
  std::int32_t row = -1;   // fault: the row in which it is seen; -1: none in particular
};

struct Workload {
  std::uint64_t seed = 0;
  std::vector<Happening> happenings;  // by turn
};

struct WorldOptions {
  std::string model;
  std::string loop = "standard";
  std::int32_t max_requests = 3;
  std::int32_t context = 512;
  std::int32_t chunk_rows = 24;
  std::int32_t pool_pages = 14;         // of 16 positions: three requests do not fit for long
  std::int32_t window_pages = 12;
  bool prefix_cache = true;
  bool faults = true;                   // workloads may break steps on purpose
};

// Seeds in groups of eight share an engine in a suite; every second group has room for many prefixes and few windows, so that
// windows are rebuilt, where the others have little room at all.
inline constexpr std::uint64_t kWorkloadsPerEngine = 8;
WorldOptions variant_for(WorldOptions options, std::uint64_t seed);

// What requests give alone on a cold engine, computed once for each: the truth that every loop and batch is held to.
class Reference {
 public:
  static Result<std::unique_ptr<Reference>> open(const WorldOptions& options);
  struct Answer {
    std::vector<std::int32_t> tokens;
    std::vector<std::uint64_t> digests;
  };
  const Answer& answer(const Request& request);
  const Engine::Impl& engine() const { return *engine_; }

 private:
  explicit Reference(std::unique_ptr<Engine::Impl> engine) : engine_(std::move(engine)) {}
  std::unique_ptr<Engine::Impl> engine_;
  std::map<std::string, Answer> known_;
};

// REQUIRES: the reference is of the same model.
Workload make_workload(std::uint64_t seed, const WorldOptions& options, Reference& reference);

class World {
 public:
  static Result<std::unique_ptr<World>> open(const WorldOptions& options, Reference& reference, bool tracked);
  ~World();

  // Runs a workload to its end, and looks at everything on the way. What is wrong is in auditor().violations().
  void run(const Workload& workload);

  Auditor& auditor() { return *auditor_; }
  Tracker& tracker() { return tracker_; }
  Engine::Impl& engine() { return *engine_; }

 private:
  World(const WorldOptions& options, Reference& reference) : options_(options), reference_(reference) {}
  void act(const Happening& happening);
  void fetch();

  const WorldOptions options_;
  Reference& reference_;
  VirtualClock clock_{1};
  Tracker tracker_;
  std::unique_ptr<Engine::Impl> engine_;
  std::unique_ptr<Auditor> auditor_;
  std::vector<RequestId> asked_;    // by number of `ask`
  std::vector<RequestId> alive_;
};

}  // namespace plumb::conformance
