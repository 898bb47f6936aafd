// Activations as signed bytes, through the engine and the program: what stays the same, what changes, and what it may cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
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

// A GGUF file whose attention and head are quantised too; the story model keeps them in bf16.
class Act : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string file(const std::string& attention) {
    const std::string path = (std::filesystem::temp_directory_path() / ("plumb_act_" + std::to_string(::getpid()) + "_" + attention + ".gguf")).string();
    if (!std::filesystem::exists(path)) {
      const auto done = run_plumb({"synth", "--preset", "tiny", "--attn", attention, "-o", path, "-q"});
      EXPECT_EQ(done.status, 0) << done.err;
    }
    return path;
  }
  static void TearDownTestSuite() {
    for (const char* attention : {"q8_0", "q4_0"}) std::filesystem::remove(file(attention));
  }
};

Engine open(const std::string& model, EngineOptions options) {
  options.context = 128;
  options.prefix_cache = false;
  auto engine = Engine::open(model, options);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

struct Outputs {
  std::vector<std::uint64_t> digests;  // of every generated token
  std::vector<std::vector<float>> logits;
};

Outputs outputs(Engine& engine) {
  Request request{.max_tokens = 12, .ignore_eos = true};
  for (std::int32_t i = 0; i < 45; ++i) request.prompt_ids.push_back((i * 37 + 5) % 300);
  request.logit_positions = {0, 7, 20, 44};
  Outputs out;
  auto end = engine.generate(request, [&](const Event& event) {
    if (event.kind == EventKind::token) out.digests.push_back(event.logit_digest);
    if (event.kind == EventKind::logits) out.logits.push_back(event.logits);
    return true;
  });
  EXPECT_TRUE(end.ok()) << end.error().to_string();
  return out;
}

TEST_P(Act, Q8BitsDependOnNeitherChunksNorThreads) {
  const std::string model = GetParam() == std::string("story") ? kStory : file(GetParam());
  std::vector<Outputs> all;
  for (const auto& [chunk, threads] : {std::pair{256, 2}, {1, 1}, {7, 3}}) {
    Engine engine = open(model, {.threads = threads, .act = "q8", .chunk_rows = chunk});
    all.push_back(outputs(engine));
  }
  ASSERT_EQ(all[0].digests.size(), 12U);
  ASSERT_EQ(all[0].logits.size(), 4U);
  for (const Outputs& other : all) {
    EXPECT_EQ(other.digests, all[0].digests);
    EXPECT_EQ(other.logits, all[0].logits);
  }
}

TEST_P(Act, Q8IsAnotherComputationAndNearTheExactOne) {
  const std::string model = GetParam() == std::string("story") ? kStory : file(GetParam());
  Engine exact = open(model, {.act = "f32"});
  Engine q8 = open(model, {.act = "q8"});
  const Outputs a = outputs(exact);
  const Outputs b = outputs(q8);
  EXPECT_NE(a.logits, b.logits);
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    // A wrong offset, sign or nibble order gives a cosine near 0; a routing flip costs a few hundredths.
    EXPECT_GT(measure::compare_logits(a.logits[i], b.logits[i]).cosine, 0.9) << i;
  }
}

TEST_P(Act, PackedWeightsReplaceTheirStoredForm) {
  const std::string model = GetParam() == std::string("story") ? kStory : file(GetParam());
  const auto exact = Engine::open(model, {.act = "f32", .context = 128});
  const auto q8 = Engine::open(model, {.act = "q8", .context = 128});
  ASSERT_TRUE(exact.ok() && q8.ok());
  const decode::MemoryUse& before = exact->impl().executor().memory();
  const decode::MemoryUse& after = q8->impl().executor().memory();
  EXPECT_EQ(before.packed_weights, 0U);
  EXPECT_GT(after.packed_weights, 0U);
  EXPECT_LT(after.mapped_weights, before.mapped_weights);
  // All dimensions are multiples of 8 here: packing costs nothing but what it moves.
  EXPECT_EQ(after.packed_weights + after.mapped_weights, before.mapped_weights);
  // What `plumb inspect` says beforehand is what was reserved.
  for (const auto& [act, use] : {std::pair{"f32", before}, {"q8", after}}) {
    const json said = json::parse(run_plumb({"inspect", model, "--act", act, "--ctx", "128", "--json"}).out).at("memory").at("engine");
    EXPECT_EQ(said.at("packed_weights_bytes"), use.packed_weights);
    EXPECT_EQ(said.at("mapped_weights_bytes"), use.mapped_weights);
    EXPECT_EQ(said.at("constants_bytes"), use.constants);
    EXPECT_EQ(said.at("kv_bytes"), use.kv);
    EXPECT_EQ(said.at("activations_bytes"), use.activations);
    EXPECT_EQ(said.at("results_bytes"), use.results);
    EXPECT_EQ(said.at("total_bytes"), use.total());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Act, ::testing::Values("story", "q8_0", "q4_0"), [](const auto& p) { return std::string(p.param); });

TEST(ActOption, OtherValuesAreRefusedByName) {
  const auto engine = Engine::open(kStory, {.act = "q4"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(engine.error().field, "act");
  EXPECT_EQ(engine.error().value, "q4");
}

// Whether the whole oracle passes is tests/full/quality_full_test.cpp's matter; a few prompts are too few for a percentile.
TEST(ActBudget, VerifyHoldsTheDeploymentPathToIt) {
  const std::string oracle = PLUMB_SOURCE_DIR "/tests/oracle/story-oracle.safetensors";
  const auto done = run_plumb({"verify", kStory, "--oracle", oracle, "--path", "deploy", "--act", "q8", "--prompts", "0-4", "--json", "-q"});
  const json report = json::parse(done.out);
  const json& quality = report["quality"];
  EXPECT_GT(quality["kl_mean"].get<double>(), 1e-6) << "not the q8 path";
  bool within = true;
  for (const char* figure : {"kl_mean", "kl_p99", "top1_flips"}) {
    within = within && quality[figure].get<double>() <= quality["budget"][figure].get<double>();
  }
  EXPECT_EQ(report["verdict"], within ? "PASS" : "FAIL");
  EXPECT_EQ(done.status, within ? 0 : 3) << done.err;
}

TEST(ActBudget, TheExactPathIsFloat32) {
  const auto done = run_plumb({"verify", kStory, "--oracle", "any", "--act", "q8"});
  EXPECT_EQ(done.status, 2) << done.err;
  EXPECT_NE(done.err.find("--act"), std::string::npos) << done.err;
}

TEST(Bench, StreamsOfOneTextAreNamed) {
  const auto rows = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"bench", kStory, "-p", "0", "-n", "4", "-s", "3", "-r", "1", "--json", "-q"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(run_plumb(arguments).out).at("rows");
  };
  const json same = rows({"--same-text"});
  const json several = rows({});
  ASSERT_EQ(same.size(), 1U);
  EXPECT_EQ(same[0]["name"], "tg4x3same");
  EXPECT_EQ(same[0]["same_text"], true);
  EXPECT_EQ(several[0]["name"], "tg4x3");
  EXPECT_NE(same[0]["fingerprint"], several[0]["fingerprint"]);
}

TEST(Bench, KeepsEverySampleAndSaysWhatItReads) {
  const std::string path = (std::filesystem::temp_directory_path() / ("plumb_bench_" + std::to_string(::getpid()) + ".gguf")).string();
  ASSERT_EQ(run_plumb({"synth", "--preset", "tiny", "-o", path, "-q"}).status, 0);
  const auto started = static_cast<double>(std::time(nullptr));
  const auto done = run_plumb({"bench", path, "-p", "8", "-n", "4", "-s", "1,3", "-d", "0,16", "--chunk", "16", "-r", "2", "--act", "q8", "--json", "-q"});
  std::filesystem::remove(path);
  ASSERT_EQ(done.status, 0) << done.out << done.err;
  const json report = json::parse(done.out);
  EXPECT_EQ(report["act"], "q8");
  EXPECT_EQ(report["loop"], "chained:4") << "the default";
  EXPECT_EQ(report["read_bytes_per_s"]["samples"].size(), 2U);
  std::vector<std::string> names;
  for (const json& row : report["rows"]) {
    names.push_back(row["name"]);
    EXPECT_EQ(row["tokens_per_s"]["samples"].size(), 2U);
    ASSERT_EQ(row["ended_unix_s"].size(), 2U);
    EXPECT_GE(row["ended_unix_s"][0], started);
    EXPECT_LT(row["ended_unix_s"][0], row["ended_unix_s"][1]);
    EXPECT_TRUE(row["fingerprint_repeats"].get<bool>());
    EXPECT_EQ(row.contains("of_read_bandwidth"), row["kind"] == "decode" && row["streams"] == 1);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"pp8", "tg4", "tg4x3", "pp8@d16", "tg4@d16", "tg4x3@d16"}));
}

}  // namespace
}  // namespace plumb
