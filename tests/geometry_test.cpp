// Models of every shape: the engine against the double-precision references of its ops, on random checkpoints and on the
// bundled one.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "plumb/plumb.h"
#include "reference_run.h"
#include "subprocess.h"

namespace plumb {
namespace {

struct Difference {
  double largest = 0;
  double scale = 0;  // largest reference logit
};

// Runs `tokens` through the engine, in chunks, and compares every position.
Difference compare(const std::string& model, const std::vector<std::int32_t>& tokens, std::int32_t chunk, const std::string& isa) {
  Difference d;
  const auto expected = test::reference_logits(model, tokens);
  EXPECT_TRUE(expected.ok()) << expected.error().to_string();
  auto engine = Engine::open(model, {.threads = 2, .isa = isa, .act = "f32", .context = 512, .chunk_rows = chunk, .checked = true});
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().to_string());
  if (!expected.ok() || !engine.ok()) return d;
  Request request{.prompt_ids = tokens, .max_tokens = 0};
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(tokens.size()); ++i) request.logit_positions.push_back(i);
  const auto vocab = static_cast<std::size_t>(engine->info().vocab);
  std::size_t positions = 0;
  const auto done = engine->generate(request, [&](const Event& e) {
    if (e.kind != EventKind::logits) return true;
    for (std::size_t i = 0; i < vocab; ++i) {
      const double want = (*expected)[positions * vocab + i];
      d.largest = std::max(d.largest, std::abs(want - static_cast<double>(e.logits[i])));
      d.scale = std::max(d.scale, std::abs(want));
    }
    ++positions;
    return true;
  });
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(positions, tokens.size());
  return d;
}

std::vector<std::int32_t> tokens(std::size_t n, std::int32_t vocab, std::uint32_t seed) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    ids.push_back(static_cast<std::int32_t>((seed >> 8) % static_cast<std::uint32_t>(vocab)));
  }
  return ids;
}

TEST(Geometry, TheBundledModelMatchesItsReferencesAcrossTheWindow) {
  const std::string model = PLUMB_SOURCE_DIR "/models/story";
  const Difference d = compare(model, tokens(150, 4000, 1), 64, "");
  EXPECT_GT(d.scale, 1.0) << "a model that says nothing compares equal to anything";
  EXPECT_LT(d.largest, 1e-4);
}

struct Shape {
  const char* name;
  std::vector<std::string> flags;
};

class RandomGeometry : public testing::TestWithParam<Shape> {};

TEST_P(RandomGeometry, MatchesItsReferences) {
  const std::string file = testing::TempDir() + "plumb_geometry_" + GetParam().name + ".gguf";
  std::vector<std::string> argv{PLUMB_BINARY, "synth", "--preset", "tiny", "-o", file};
  argv.insert(argv.end(), GetParam().flags.begin(), GetParam().flags.end());
  const test::Finished made = test::run_program(argv);
  ASSERT_EQ(made.status, 0) << made.err;
  for (const char* isa : {"", "portable"}) {
    const Difference d = compare(file, tokens(70, 256, 7), 23, isa);
    EXPECT_GT(d.scale, 1e-3);
    EXPECT_LT(d.largest, 1e-4 * std::max(1.0, d.scale)) << "isa " << isa;
  }
  std::filesystem::remove(file);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RandomGeometry,
    testing::Values(Shape{"odd_heads", {"--heads", "7", "--kv-heads", "7", "--head-dim", "24", "--attn", "f16"}},
                    Shape{"one_kv_head", {"--heads", "5", "--kv-heads", "1", "--head-dim", "8", "--attn", "bf16"}},
                    Shape{"wide_heads", {"--heads", "3", "--kv-heads", "3", "--head-dim", "136", "--attn", "f32"}},
                    Shape{"window_of_one", {"--window", "1"}},
                    Shape{"odd_window", {"--window", "37"}},
                    Shape{"window_beyond_the_text", {"--window", "300"}},
                    Shape{"every_expert", {"--experts", "5", "--top-k", "5"}},
                    Shape{"one_expert", {"--experts", "3", "--top-k", "1"}},
                    Shape{"narrow", {"--hidden", "32", "--ffn", "32"}},
                    Shape{"uneven", {"--hidden", "96", "--ffn", "160", "--layers", "3"}}),
    [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace plumb
