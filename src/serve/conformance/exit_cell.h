// One cell of the exit matrix: a request is brought into a phase, the exit strikes, and everything is looked at afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "serve/conformance/exit_matrix.h"
#include "serve/conformance/footprint.h"

namespace plumb::conformance {

// Who takes part. Every answer is that of a cold run alone, unless the exit takes it away.
struct ExitCast {
  Request primer;                 // runs before, so that the subject's first pages are in the tree
  std::vector<Request> company;   // running when the subject comes; older than it
  std::int32_t head_start = 2;    // turns between them and the subject
  Request subject;
  std::vector<Request> later;     // come after the subject
  Request canary;                 // asked when all is over: it shares the subject's text
};

class ExitCellRun final : private SchedulerWatch {
 public:
  ExitCellRun(World& world, Exit exit, Phase phase, const ExitCast& cast);
  ~ExitCellRun() override;
  ExitCellRun(const ExitCellRun&) = delete;
  ExitCellRun& operator=(const ExitCellRun&) = delete;

  // REQUIRES: the world is at rest, and its tree empty.
  ExitCell run();
  // The exit really struck in the phase.
  bool struck() const { return struck_; }

 private:
  void opened(const decode::StepTicket& ticket, bool ahead) override;
  void launched(const decode::StepTicket& ticket) override;
  void counted(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) override;
  void retracting(const RequestState& request) override;
  void ending(const RequestState& request, Finish finish) override;

  bool is_subject(RequestId id) const { return subject_ >= 0 && world_.asked(subject_).id == id; }
  bool here() const;   // the subject stands in the phase, by what the engine says of it
  void approach();
  void strike();
  std::string judge();

  World& world_;
  const Exit exit_;
  const Phase phase_;
  const bool chained_;
  const ExitCast& cast_;
  std::int32_t subject_ = -1;
  std::vector<std::int32_t> others_;
  bool striking_ = false;  // the subject has come
  bool struck_ = false;
  std::int32_t in_flight_ = 0;
  std::int32_t subject_row_ = -1;   // its first row in the step that was planned last
  std::int32_t endings_ = 0;
  Finish finish_ = Finish::none;
  bool settled_chunk_ = false;      // of the subject's share that settled last
  std::int32_t still_flying_ = 0;   // steps that carried it then, that one not counted
};

}  // namespace plumb::conformance
