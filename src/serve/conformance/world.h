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

enum class Deed : std::uint8_t {
  ask, abort, pause, resume, flush, fault, no_memory, late,
  drop,    // the client of a request is gone, and nobody fetches its events
  lose,    // the device is lost at the next launch
  stop,    // shutdown
  attend,  // mail is taken in and the queue admitted from, and nothing is launched: what every order does on its way
  wait,    // time passes
};
const char* to_string(Deed deed);

struct Happening {
  std::int32_t turn = 0;
  Deed deed = Deed::ask;
  Request request;         // ask
  std::int32_t of = 0;     // abort, drop: which of the requests (by number of `ask`)
  std::uint64_t nth = 0;   // fault: which launch from now fails; late: completions held back until then; wait: milliseconds
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
  // [vocab] of the first draw. REQUIRES: token_logits and max_tokens 1.
  std::vector<float> first_logits(const Request& request);
  const Engine::Impl& engine() const { return *engine_; }

 private:
  explicit Reference(std::unique_ptr<Engine::Impl> engine) : engine_(std::move(engine)) {}
  std::unique_ptr<Engine::Impl> engine_;
  std::map<std::string, Answer> known_;
};

// REQUIRES: the reference is of the same model.
Workload make_workload(std::uint64_t seed, const WorldOptions& options, Reference& reference);

// Passes on what one engine does to several watchers, in their order.
class WatchList final : public SchedulerWatch {
 public:
  void add(SchedulerWatch* watch) { all_.push_back(watch); }
  void remove(SchedulerWatch* watch) { std::erase(all_, watch); }

  void queued(const RequestState& r) override { each([&](SchedulerWatch& w) { w.queued(r); }); }
  void admitted(const RequestState& r) override { each([&](SchedulerWatch& w) { w.admitted(r); }); }
  void refused(const RequestState& r) override { each([&](SchedulerWatch& w) { w.refused(r); }); }
  void opened(const decode::StepTicket& t, bool ahead) override { each([&](SchedulerWatch& w) { w.opened(t, ahead); }); }
  void launched(const decode::StepTicket& t) override { each([&](SchedulerWatch& w) { w.launched(t); }); }
  void ran(const decode::StepTicket& t, const decode::Submission& s) override { each([&](SchedulerWatch& w) { w.ran(t, s); }); }
  void counted(const decode::StepTicket& t, const decode::StepReceipt& r) override { each([&](SchedulerWatch& w) { w.counted(t, r); }); }
  void settled(const decode::StepTicket& t, const decode::StepReceipt& r) override { each([&](SchedulerWatch& w) { w.settled(t, r); }); }
  void retracting(const RequestState& r) override { each([&](SchedulerWatch& w) { w.retracting(r); }); }
  void retracted(const RequestState& r) override { each([&](SchedulerWatch& w) { w.retracted(r); }); }
  void ending(const RequestState& r, Finish finish) override { each([&](SchedulerWatch& w) { w.ending(r, finish); }); }
  void released(RequestId id) override { each([&](SchedulerWatch& w) { w.released(id); }); }
  void flushed() override { each([&](SchedulerWatch& w) { w.flushed(); }); }

 private:
  template <class F>
  void each(F f) {
    for (SchedulerWatch* const watch : all_) f(*watch);
  }
  std::vector<SchedulerWatch*> all_;
};

class World {
 public:
  static Result<std::unique_ptr<World>> open(const WorldOptions& options, Reference& reference, bool tracked);
  ~World();

  // Runs a workload to its end, and looks at everything on the way. What is wrong is in auditor().violations().
  void run(const Workload& workload);

  // The same, one thing at a time, for drivers that decide by what they see.
  void act(const Happening& happening);
  // A client asks; returns the number of the request among those asked since the last forget().
  std::int32_t ask(const Request& request);
  // Time passes, one turn of the loop, everything that came is fetched and looked at. False when there was nothing to do.
  bool turn();
  // Turns until nothing is left to do; a pause is ended. False when that never happens.
  bool rest();
  // An order that comes while a step is in flight, from another thread: it is carried out when the thread that drives lets go,
  // after this turn.
  void act_after_turn(Happening happening) { after_turn_.push_back(std::move(happening)); }
  // Requests are numbered from 0 again. REQUIRES: at rest.
  void forget();

  struct Asked {
    RequestId id = 0;           // 0: refused
    Error refused;
    std::vector<Event> tokens;
    std::int32_t terminals = 0;
    Event end;
  };
  const Asked& asked(std::int32_t number) const { return asked_[static_cast<std::size_t>(number)]; }
  // Null when it is not in the engine (any more).
  const RequestState* state(std::int32_t number) const;

  Auditor& auditor() { return *auditor_; }
  Tracker& tracker() { return tracker_; }
  Engine::Impl& engine() { return *engine_; }
  // Beside the auditor, and after it.
  WatchList& watches() { return watches_; }
  const WorldOptions& options() const { return options_; }

 private:
  World(const WorldOptions& options, Reference& reference) : options_(options), reference_(reference) {}
  void fetch();
  void order(Order order);

  const WorldOptions options_;
  Reference& reference_;
  VirtualClock clock_{1};
  Tracker tracker_;
  std::unique_ptr<Engine::Impl> engine_;
  std::unique_ptr<Auditor> auditor_;
  WatchList watches_;
  std::vector<Asked> asked_;         // by number of `ask`
  std::vector<std::int32_t> alive_;  // numbers of those whose terminal event has not been fetched
  std::vector<Happening> after_turn_;
};

}  // namespace plumb::conformance
