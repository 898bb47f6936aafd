// A really opened engine in each loop, with hooks, for tests of traces (traces_test.cpp).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "serve/conformance/world.h"
#include "subprocess.h"

namespace plumb::conformance {

// Calls what a test hangs in.
struct Hooks final : SchedulerWatch {
  std::function<void(const RequestState&)> on_admitted, on_ending;
  std::function<void(const decode::StepTicket&, bool)> on_opened;
  std::function<void(const decode::StepTicket&)> on_launched, on_settled;
  std::function<void(RequestId)> on_released;

  void admitted(const RequestState& r) override { if (on_admitted) on_admitted(r); }
  void ending(const RequestState& r, Finish) override { if (on_ending) on_ending(r); }
  void opened(const decode::StepTicket& t, bool ahead) override { if (on_opened) on_opened(t, ahead); }
  void launched(const decode::StepTicket& t) override { if (on_launched) on_launched(t); }
  void settled(const decode::StepTicket& t, const decode::StepReceipt&) override { if (on_settled) on_settled(t); }
  void released(RequestId id) override { if (on_released) on_released(id); }
};

// One engine in one loop; every answer is compared, bit for bit, with that of a cold run alone.
struct Scene {
  Scene(const WorldOptions& o) : options(o) {
    auto r = Reference::open(options);
    EXPECT_TRUE(r.ok()) << r.error().to_string();
    reference = *std::move(r);
    auto w = World::open(options, *reference, false);
    EXPECT_TRUE(w.ok()) << w.error().to_string();
    world = *std::move(w);
    world->watches().add(&hooks);
  }
  ~Scene() {
    for (const Violation& v : world->auditor().violations()) ADD_FAILURE() << options.loop << " breaks " << v.clause << ": " << v.what;
  }
  bool chained() const { return options.loop != "standard"; }
  Request ask(std::int32_t salt, std::int32_t n, std::int32_t max_tokens) const {
    Request r;
    for (std::int32_t i = 0; i < n; ++i) r.prompt_ids.push_back((salt * 131 + i * i * 7 + i * 3) % 300);
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    return r;
  }
  const World::Asked& finish(std::int32_t number) {
    world->rest();
    EXPECT_EQ(world->asked(number).terminals, 1);
    return world->asked(number);
  }
  std::int64_t nodes() const { return world->engine().tree()->nodes(); }

  const WorldOptions options;
  std::unique_ptr<Reference> reference;
  Hooks hooks;
  std::unique_ptr<World> world;
};

class Traces : public testing::Test {
 protected:
  std::string model(const char* preset) {
    const std::string path = scratch_.path() + "/" + preset;
    const auto made = test::run_plumb({"synth", "--preset", preset, "--hf", path});
    EXPECT_EQ(made.status, 0) << made.err;
    return path;
  }
  // Attention with and without windows, and recurrent layers; or `tiny`: windows of 16 positions, experts.
  void in_both_loops(WorldOptions options, const std::function<void(Scene&)>& trace, const char* preset = "hybrid-tiny") {
    options.model = model(preset);
    for (const char* loop : {"standard", "chained:4"}) {
      SCOPED_TRACE(loop);
      options.loop = loop;
      Scene stage(options);
      if (HasFatalFailure() || stage.world == nullptr) return;
      trace(stage);
    }
  }
  test::ScratchFolder scratch_;
};

}  // namespace plumb::conformance
