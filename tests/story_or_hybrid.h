// Tests that run on the story model and on a small one with recurrent layers, in both loops.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "story.h"
#include "subprocess.h"

namespace plumb::test {

struct Setting {
  const char* loop;
  bool hybrid;
};

class StoryOrHybrid : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!GetParam().hybrid) return;
    model_ = scratch_.path() + "/model";
    const auto made = run_plumb({"synth", "--preset", "hybrid-tiny", "--hf", model_});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  std::string model_ = kStoryModel;
  ScratchFolder scratch_;
};

inline const auto kBothModelsBothLoops =
    testing::Values(Setting{"standard", false}, Setting{"chained:4", false}, Setting{"standard", true}, Setting{"chained:4", true});
inline std::string setting_name(const testing::TestParamInfo<Setting>& tested) {
  return std::string(tested.param.hybrid ? "hybrid_" : "story_") + (tested.param.loop[0] == 's' ? "standard" : "chained");
}

}  // namespace plumb::test
