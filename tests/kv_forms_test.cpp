// Keys and values in narrower forms, through the engine and the program: what stays the same, what changes, and what it may cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "measure/parity.h"
#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::run_plumb;

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

Engine open(EngineOptions options) {
  options.act = "f32";
  options.context = 512;
  auto engine = Engine::open(kStory, options);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

Request prompt(std::int32_t tokens) {
  Request request{.max_tokens = 12, .ignore_eos = true};
  for (std::int32_t i = 0; i < tokens; ++i) request.prompt_ids.push_back((i * 37 + 5) % 4000);
  return request;
}

struct Outputs {
  std::vector<std::int32_t> ids;
  std::vector<std::uint64_t> digests;  // of every generated token
  std::vector<std::vector<float>> logits;
};

Outputs outputs(Engine& engine) {
  Request request = prompt(300);
  request.logit_positions = {0, 7, 127, 128, 299};
  Outputs out;
  auto end = engine.generate(request, [&](const Event& event) {
    if (event.kind == EventKind::token) {
      out.ids.push_back(event.token);
      out.digests.push_back(event.logit_digest);
    }
    if (event.kind == EventKind::logits) out.logits.push_back(event.logits);
    return true;
  });
  EXPECT_TRUE(end.ok()) << end.error().to_string();
  return out;
}

class KvForm : public ::testing::TestWithParam<const char*> {};

// Chunks decide what a prompt's kernel sees at once, --attention which kernel runs.
TEST_P(KvForm, BitsDependOnNeitherChunksNorThreadsNorTheKernel) {
  Engine first = open({.threads = 2, .kv = GetParam()});
  const Outputs expected = outputs(first);
  ASSERT_EQ(expected.digests.size(), 12U);
  ASSERT_EQ(expected.logits.size(), 5U);
  struct Way {
    std::int32_t chunk;
    int threads;
    const char* attention;
  };
  for (const Way& way : {Way{1, 1, "auto"}, Way{7, 3, "off"}, Way{64, 2, "5"}, Way{256, 1, "off"}}) {
    Engine engine = open({.threads = way.threads, .kv = GetParam(), .attention = way.attention, .chunk_rows = way.chunk});
    const Outputs other = outputs(engine);
    EXPECT_EQ(other.digests, expected.digests) << way.chunk << " " << way.attention;
    EXPECT_EQ(other.logits, expected.logits) << way.chunk << " " << way.attention;
  }
}

TEST_P(KvForm, IsNearTheExactOneAndTakesLessMemory) {
  Engine exact = open({});
  Engine narrow = open({.kv = GetParam()});
  const Outputs a = outputs(exact);
  const Outputs b = outputs(narrow);
  EXPECT_NE(a.logits, b.logits) << "not another form";
  for (std::size_t i = 0; i < a.logits.size(); ++i) EXPECT_GT(measure::compare_logits(a.logits[i], b.logits[i]).cosine, 0.98) << i;
  const double share = static_cast<double>(narrow.impl().layout().total_bytes()) / static_cast<double>(exact.impl().layout().total_bytes());
  EXPECT_DOUBLE_EQ(share, GetParam() == std::string("q8") ? 68.0 / 256 : 0.5);
}

// The prefix tree and session files take pages as bytes.
TEST_P(KvForm, SessionsComeBackInTheirFormAndInNoOther) {
  const std::string file = (std::filesystem::temp_directory_path() / ("plumb_kv_" + std::to_string(::getpid()) + GetParam())).string();
  Request request = prompt(64);
  std::vector<std::int32_t> text = request.prompt_ids;
  Outputs first;
  {
    Engine engine = open({.kv = GetParam()});
    auto end = engine.generate(request, [&](const Event& event) {
      if (event.kind == EventKind::token) first.digests.push_back(event.logit_digest);
      return true;
    });
    ASSERT_TRUE(end.ok());
    const auto saved = engine.save_session(text, file);
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
    EXPECT_EQ(*saved, 64);
  }
  Engine again = open({.kv = GetParam()});
  ASSERT_TRUE(again.restore_session(file).ok());
  Outputs second;
  const auto end = again.generate(request, [&](const Event& event) {
    if (event.kind == EventKind::token) second.digests.push_back(event.logit_digest);
    return true;
  });
  ASSERT_TRUE(end.ok());
  EXPECT_GT(end->usage.cached_tokens, 0);
  EXPECT_EQ(second.digests, first.digests);

  Engine other = open({});
  const auto refused = other.restore_session(file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::shape_mismatch);
  std::filesystem::remove(file);
}

INSTANTIATE_TEST_SUITE_P(Forms, KvForm, ::testing::Values("f16", "bf16", "q8"), [](const auto& p) { return std::string(p.param); });

TEST(KvOption, OtherValuesAreRefusedByName) {
  const auto kv = Engine::open(kStory, {.kv = "q4"});
  ASSERT_FALSE(kv.ok());
  EXPECT_EQ(kv.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(kv.error().field, "kv");
  EXPECT_EQ(kv.error().value, "q4");
  const auto attention = Engine::open(kStory, {.attention = "fast"});
  ASSERT_FALSE(attention.ok());
  EXPECT_EQ(attention.error().field, "attention");
}

TEST(KvBudget, VerifyHoldsTheDeploymentPathToIt) {
  const std::string oracle = PLUMB_SOURCE_DIR "/tests/oracle/story-oracle.safetensors";
  const auto exact = run_plumb({"verify", kStory, "--oracle", oracle, "--kv", "f16"});
  EXPECT_EQ(exact.status, 2) << exact.err;
  EXPECT_NE(exact.err.find("--kv"), std::string::npos) << exact.err;
  const auto done = run_plumb({"verify", kStory, "--oracle", oracle, "--path", "deploy", "--act", "f32", "--kv", "q8", "--prompts", "0-4", "--json", "-q"});
  const json report = json::parse(done.out);
  EXPECT_EQ(report["kv"], "q8");
  EXPECT_GT(report["quality"]["kl_mean"].get<double>(), 1e-9) << "not the q8 form";
  EXPECT_EQ(report["quality"]["budget"]["kl_mean"], 2e-3);
}

TEST(AttentionRoute, SaysWhichKernelRanAndWhatWasRefused) {
  const auto kernels = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", kStory, "-n", "3", "--greedy", "--ignore-eos", "--witness", "--json", "-q"};
    if (std::find(more.begin(), more.end(), "--ids") == more.end()) arguments.insert(arguments.end(), {"--ids", "5,6,7,8,9,10,11,12,13"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, std::uint64_t> found;
    const json report = json::parse(run_plumb(arguments).out);
    for (const auto& row : report["route"]) {
      if (row["op"] != "attention") continue;
      found[row["kernel"]] += row["positions_x_layers"].get<std::uint64_t>();
      found["refused"] += row["refused"].get<std::uint64_t>();
    }
    return found;
  };
  const auto off = kernels({"--attention", "off", "--kv", "bf16"});
  EXPECT_EQ(off.at("f32_bf16kv_attention_serial"), (9U + 2U) * 6U);
  EXPECT_EQ(off.at("refused"), 0U);
  const auto parts = kernels({"--attention", "3", "--kv", "q8"});
  EXPECT_EQ(parts.at("f32_q8kv_attention_seqpar"), (9U + 2U) * 6U);
  // A step of many rows divides the room for slices, here 16 places: the prompt's rows have none, and what is said to have run is what ran.
  std::string ids = "5";
  for (int i = 1; i < 600; ++i) ids += "," + std::to_string(i);
  const auto divided = kernels({"--ids", ids, "--ctx", "1024", "--attention", "3", "--kv", "f16"});
  EXPECT_EQ(divided.at("f32_f16kv_attention_grouped"), 600U * 6U);
  EXPECT_EQ(divided.at("f32_f16kv_attention_seqpar"), 2U * 6U);
  // No row was measured for the portable kernels.
  const auto refused = kernels({"--isa", "portable"});
  EXPECT_EQ(refused.at("f32_f32kv_attention_serial"), (9U + 2U) * 6U);
  EXPECT_EQ(refused.at("refused"), 3U * 6U);
}

}  // namespace
}  // namespace plumb
