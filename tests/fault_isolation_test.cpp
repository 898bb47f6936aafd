// A step that fails ends the request whose fault it was. The others give the bits they would have given, and nothing is left behind:
// both loops, a model with windows and one with recurrent layers, through the public interface with injected faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story_or_hybrid.h"

namespace plumb {
namespace {

using device::FaultPoint;
using test::Answer;

// Says what a step about to be submitted shall die of.
class Saboteur final : public SchedulerWatch {
 public:
  using Plan = std::function<void(const decode::StepTicket&, device::FaultInjector&)>;
  Saboteur(Engine& engine, Plan plan) : engine_(engine), plan_(std::move(plan)) {
    engine.impl().core().at_rest([this](Scheduler& s) { s.watch(this); });
  }
  ~Saboteur() override {
    engine_.impl().core().at_rest([](Scheduler& s) { s.watch(nullptr); });
  }
  Saboteur(const Saboteur&) = delete;
  Saboteur& operator=(const Saboteur&) = delete;
  void opened(const decode::StepTicket& ticket, bool ahead) override {
    ahead_ += ahead ? 1 : 0;
    if (plan_) plan_(ticket, engine_.impl().queue().faults());
  }
  void settled(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) override {
    if (receipt.status.ok()) return;
    ++(receipt.behind ? behind_ : failed_);
    if (!receipt.behind && ticket.plan().shares.size() == 1) ++failed_alone_;
  }
  int failed() const { return failed_; }
  int failed_alone() const { return failed_alone_; }
  int behind() const { return behind_; }
  int ahead() const { return ahead_; }

 private:
  Engine& engine_;
  const Plan plan_;
  int failed_ = 0, failed_alone_ = 0, behind_ = 0, ahead_ = 0;
};

const decode::Share* share_of(const decode::StepTicket& ticket, RequestId id) {
  for (const decode::Share& share : ticket.plan().shares) {
    if (share.owner == id) return &share;
  }
  return nullptr;
}

class Isolation : public test::StoryOrHybrid {
 protected:
  Engine open(std::int32_t max_requests = 4) const {
    auto engine = Engine::open(model_, {.threads = 2, .context = 512, .chunk_rows = 48, .max_requests = max_requests, .loop = GetParam().loop});
    EXPECT_TRUE(engine.ok()) << engine.error().to_string();
    return std::move(engine).value();
  }
  // The numbers of the requests are 1, 2, 3, 4.
  std::vector<Request> requests(const Engine& engine) const {
    std::vector<Request> all;
    for (std::int32_t i = 0; i < 4; ++i) {
      Request r;
      for (std::int32_t t = 0; t < 20 + 30 * i; ++t) r.prompt_ids.push_back((t * 37 + i * 101 + 5) % engine.info().vocab);
      r.max_tokens = 30;
      r.ignore_eos = true;
      if (i == 1) r.sampling = {.temperature = 0.8F, .seed = 11};
      if (i == 2) r.sampling.frequency_penalty = 0.3F;
      all.push_back(std::move(r));
    }
    return all;
  }
  static std::vector<Answer> run(Engine& engine, const std::vector<Request>& requests) {
    std::vector<Stream> streams;
    for (const Request& r : requests) streams.push_back(engine.submit(r).value());
    std::vector<Answer> answers;
    for (Stream& stream : streams) answers.push_back(test::drain(stream));
    return answers;
  }
  std::vector<Answer> undisturbed() const {
    Engine engine = open();
    return run(engine, requests(engine));
  }
  // Everything that requests held is free again, or the tree's alone; and after a flush all of it is free.
  static void no_residue(Engine& engine) {
    engine.flush();
    engine.impl().core().at_rest([&](Scheduler& s) {
      EXPECT_TRUE(s.peek_requests().empty());
      EXPECT_EQ(engine.impl().slots().peek_free_rows().size(), static_cast<std::size_t>(engine.impl().slots().rows()));
      for (std::size_t c = 0; c < engine.impl().layout().classes.size(); ++c) EXPECT_EQ(engine.impl().pool(c).free_pages(), engine.impl().pool(c).pages());
      if (engine.impl().aux() != nullptr) {
        EXPECT_EQ(engine.impl().aux()->free_pages(), engine.impl().aux()->pages());
      }
      EXPECT_EQ(engine.impl().queue().live().in_flight, 0U);
    });
  }
  // Request `guilty` (from 0) ended with a fault, after tokens that were right; the others as if it had never been.
  static void only_one_ended(const std::vector<Answer>& answers, const std::vector<Answer>& expected, std::size_t guilty) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (i != guilty) {
        EXPECT_EQ(answers[i].ids, expected[i].ids) << i;
        EXPECT_EQ(answers[i].digests, expected[i].digests) << i;
        EXPECT_EQ(answers[i].end.finish, Finish::length) << i << ": " << answers[i].end.error.to_string();
        continue;
      }
      EXPECT_EQ(answers[i].end.finish, Finish::error);
      EXPECT_EQ(answers[i].end.error.code, ErrorCode::device_fault);
      EXPECT_NE(answers[i].end.error.field.find("launch"), std::string::npos) << answers[i].end.error.to_string();
      ASSERT_LT(answers[i].ids.size(), expected[i].ids.size());
      EXPECT_TRUE(std::equal(answers[i].ids.begin(), answers[i].ids.end(), expected[i].ids.begin()));
      EXPECT_TRUE(std::equal(answers[i].digests.begin(), answers[i].digests.end(), expected[i].digests.begin()));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, Isolation, test::kBothModelsBothLoops, test::setting_name);

// The fault comes wherever request 3 is, from some position on, and says nothing about whose it is.
TEST_P(Isolation, WithoutANameTheGuiltyIsFoundByTryingEachAlone) {
  const std::vector<Answer> expected = undisturbed();
  for (const std::int32_t from : {30, 96}) {  // inside its prompt of 80; while it decodes
    Engine engine = open();
    const std::uint64_t launches = engine.impl().executor().program().phases.size();
    Saboteur saboteur(engine, [&](const decode::StepTicket& ticket, device::FaultInjector& faults) {
      if (const decode::Share* share = share_of(ticket, 3); share != nullptr && share->end() > from) faults.arm(FaultPoint::execute, launches / 2);
    });
    const auto answers = run(engine, requests(engine));
    only_one_ended(answers, expected, 2);
    EXPECT_GE(saboteur.failed(), 2) << "once together, once alone";
    EXPECT_EQ(saboteur.failed_alone(), 1);
    EXPECT_NE(answers[2].end.error.to_string().find("layer"), std::string::npos) << answers[2].end.error.to_string();
    no_residue(engine);
  }
}

TEST_P(Isolation, AFaultThatDoesNotComeBackEndsNobody) {
  const std::vector<Answer> expected = undisturbed();
  for (const FaultPoint point : {FaultPoint::execute, FaultPoint::submit, FaultPoint::begin}) {
    for (const int step : {2, 9}) {
      Engine engine = open();
      int steps = 0;
      Saboteur saboteur(engine, [&](const decode::StepTicket& ticket, device::FaultInjector& faults) {
        if (ticket.plan().shares.size() > 1 && ++steps == step) faults.arm(point, 1);
      });
      const auto answers = run(engine, requests(engine));
      EXPECT_EQ(saboteur.failed(), 1) << to_string(point);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i] == expected[i]) << to_string(point) << " in step " << step << ", request " << i << ": " << answers[i].end.error.to_string();
      }
      no_residue(engine);
    }
  }
}

// An index that a kernel clamped, in a row of request 2: it ends at once, nobody runs alone.
TEST_P(Isolation, AFaultThatNamesARowEndsItsRequest) {
  const std::vector<Answer> expected = undisturbed();
  Engine probe = open();
  const auto& phases = probe.impl().executor().program().phases;
  const auto first_of = [&](kernels::RowCount over) {
    return static_cast<std::uint64_t>(std::find_if(phases.begin(), phases.end(), [&](const auto& p) { return p.over == over; }) - phases.begin());
  };
  for (const kernels::RowCount over : {kernels::RowCount::rows, kernels::RowCount::logit_rows}) {
    Engine engine = open();
    bool done = false;
    Saboteur saboteur(engine, [&](const decode::StepTicket& ticket, device::FaultInjector& faults) {
      const decode::Share* share = share_of(ticket, 2);
      if (done || ticket.plan().shares.size() < 3 || share == nullptr || share->chunk || share->first_position < 60) return;
      done = true;
      faults.arm(FaultPoint::bad_index, first_of(over) + 1, over == kernels::RowCount::rows ? share->first_row : share->sampled);
    });
    only_one_ended(run(engine, requests(engine)), expected, 1);
    EXPECT_TRUE(done);
    EXPECT_EQ(saboteur.failed(), 1);
    EXPECT_EQ(saboteur.failed_alone(), 0);
    no_residue(engine);
  }
}

// A NaN that a real kernel leaves and the real sampler finds: in the first row of logits, which is the oldest request's.
TEST_P(Isolation, ALogitThatIsNotFiniteEndsTheRequestItWasFor) {
  const std::vector<Answer> expected = undisturbed();
  Engine engine = open();
  const auto& phases = engine.impl().executor().program().phases;
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (std::string(phases[i].op->name) == "matmul" && phases[i].over == kernels::RowCount::logit_rows) head = i + 1;
  }
  ASSERT_GT(head, 0U);
  bool done = false;
  Saboteur saboteur(engine, [&](const decode::StepTicket& ticket, device::FaultInjector& faults) {
    const decode::Share* share = share_of(ticket, 1);
    if (done || ticket.plan().shares.size() < 3 || share == nullptr || share->sampled != 0) return;
    done = true;
    faults.arm(FaultPoint::non_finite, head);
  });
  only_one_ended(run(engine, requests(engine)), expected, 0);
  EXPECT_TRUE(done);
  EXPECT_EQ(saboteur.failed(), 1);
  no_residue(engine);
}

TEST_P(Isolation, ALostDeviceEndsAllWhoRunAndAllWhoWait) {
  Engine engine = open(2);
  int steps = 0;
  Saboteur saboteur(engine, [&](const decode::StepTicket&, device::FaultInjector& faults) {
    if (++steps == 6) faults.arm(FaultPoint::device_lost, 1);
  });
  for (const Answer& a : run(engine, requests(engine))) {
    EXPECT_EQ(a.end.finish, Finish::error);
    EXPECT_EQ(a.end.error.code, ErrorCode::device_lost);
  }
  EXPECT_EQ(saboteur.failed(), 1) << "those who waited were never launched";
}

}  // namespace
}  // namespace plumb
