// Models with recurrent layers, alone and among attention layers: read, lowered, run over many steps, and what their state owes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "format/gguf_writer.h"
#include "program_run.h"
#include "subprocess.h"

namespace plumb {
namespace {

using test::ProgramRun;
using Row = ProgramRun::Row;

// A fresh checkpoint of the hybrid preset.
class HybridModel {
 public:
  explicit HybridModel(std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments{"synth", "-q", "--preset", "hybrid-tiny", "--hf", path()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const test::Finished made = test::run_plumb(arguments);
    EXPECT_EQ(made.status, 0) << made.err;
  }
  std::string path() const { return folder_.file("model"); }
  std::unique_ptr<ProgramRun> open(const ProgramRun::Options& options) const {
    auto run = ProgramRun::open(path(), options);
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    return run.ok() ? std::move(*run) : nullptr;
  }
  // Changes config.json and returns what reading the spec says then.
  Result<model::DecoderSpec> spec_with(const std::string& key, const nlohmann::json& value) const {
    const std::string file = path() + "/config.json";
    const std::string before = test::read_file(file);
    nlohmann::json config = nlohmann::json::parse(before);
    if (value.is_null()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
    std::ofstream(file) << config.dump();
    const auto checkpoint = format::Checkpoint::open(path());
    EXPECT_TRUE(checkpoint.ok());
    Result<model::DecoderSpec> spec = model::read_spec(*checkpoint);
    std::ofstream(file) << before;
    return spec;
  }

 private:
  test::ScratchFolder folder_;
};

std::int32_t token(std::int32_t sequence, std::int32_t position) { return (position * 37 + sequence * 101 + 11) % 300; }

// Positions [first, first + count) of a sequence's own text.
std::vector<Row> rows(std::int32_t sequence, std::int32_t first, std::int32_t count) {
  std::vector<Row> out;
  for (std::int32_t p = first; p < first + count; ++p) out.push_back({token(sequence, p), p, sequence});
  return out;
}
std::vector<Row> operator+(std::vector<Row> a, const std::vector<Row>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Difference {
  double largest = 0;
  double scale = 0;
  void add(const std::vector<float>& wanted, const std::vector<float>& got) {
    ASSERT_EQ(wanted.size(), got.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(wanted[i]) - static_cast<double>(got[i])));
      scale = std::max(scale, std::fabs(static_cast<double>(wanted[i])));
      ASSERT_TRUE(std::isfinite(wanted[i]) && std::isfinite(got[i])) << i;
    }
  }
};

TEST(Hybrid, SpecSaysWhatEachLayerIs) {
  const HybridModel model;
  const auto spec = model.spec_with("note", "unchanged");
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->family, "plumb_hybrid");
  std::string kinds;
  for (const model::LayerSpec& layer : spec->layers) kinds += std::string(model::mixer_class(layer.mixer)) + " ";
  EXPECT_EQ(kinds, "recurrent attention_sliding recurrent attention_full ");
  const auto& recurrent = std::get<model::RecurrentSpec>(spec->layers[2].mixer);
  EXPECT_EQ(recurrent.heads, 4);
  EXPECT_EQ(recurrent.key_dim, 16);
  EXPECT_EQ(recurrent.value_dim, 16);
  EXPECT_EQ(std::get<model::AttentionSpec>(spec->layers[1].mixer).window, 32);
  EXPECT_EQ(model::layer_classes(*spec), (std::vector<std::int32_t>{32, 0}));
  EXPECT_TRUE(model::has_recurrent(*spec));
  EXPECT_EQ(model::recurrent_state_bytes(*spec), 2U * 4 * 16 * 16 * 4);

  model::DecoderSpec attention_only = *spec;
  attention_only.layers.erase(attention_only.layers.begin());
  attention_only.layers.erase(attention_only.layers.begin() + 1);
  EXPECT_FALSE(model::has_recurrent(attention_only));
  EXPECT_EQ(model::recurrent_state_bytes(attention_only), 0U);
}

TEST(Hybrid, InspectCountsTheState) {
  const HybridModel model;
  const test::Finished done = test::run_plumb({"inspect", model.path(), "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const auto document = nlohmann::json::parse(done.out);
  EXPECT_EQ(document.at("model").at("layers").at(0).at("class"), "recurrent");
  EXPECT_EQ(document.at("memory").at("state_bytes"), 8192);
  const auto& read = document.at("per_token");
  EXPECT_EQ(read.at("bytes_at_depth"), read.at("weights_bytes").get<int>() + read.at("kv_bytes_at_depth").get<int>() + 8192);
}

TEST(Hybrid, ConfigurationErrorsNameTheKey) {
  const HybridModel model;
  struct Case {
    const char* key;
    nlohmann::json value;
    ErrorCode code;
    const char* field;
  };
  for (const Case& c : {Case{"layer_types", {"recurrent", "mamba", "recurrent", "full_attention"}, ErrorCode::unsupported, "layer_types[1]"},
                        Case{"layer_types", {"recurrent"}, ErrorCode::malformed, "layer_types"},
                        Case{"recurrent_key_dim", nullptr, ErrorCode::not_found, "recurrent_key_dim"},
                        Case{"recurrent_value_dim", 513, ErrorCode::malformed, "recurrent_value_dim"},
                        Case{"recurrent_heads", 0, ErrorCode::malformed, "recurrent_heads"},
                        Case{"sliding_window", nullptr, ErrorCode::not_found, "sliding_window"},
                        Case{"num_attention_heads", 3, ErrorCode::malformed, "layer 1"}}) {
    const auto spec = model.spec_with(c.key, c.value);
    ASSERT_FALSE(spec.ok()) << c.key;
    EXPECT_EQ(spec.error().field, c.field) << spec.error().to_string();
    EXPECT_EQ(spec.error().code, c.code) << spec.error().to_string();
  }
  // What no layer needs is not asked for.
  const HybridModel recurrent({"--layer-types", "recurrent"});
  EXPECT_TRUE(recurrent.spec_with("num_attention_heads", nullptr).ok());
}

TEST(Hybrid, WeightsMustFitTheSpec) {
  const HybridModel model;
  auto spec = model.spec_with("recurrent_value_dim", 24);
  ASSERT_TRUE(spec.ok());
  const auto weights = model::read_weights(format::Checkpoint::open(model.path()).value(), *spec);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::shape_mismatch);
  EXPECT_EQ(weights.error().field, "model.layers.0.recurrent.v_proj.weight");
}

TEST(Hybrid, HasNoGgufForm) {
  const test::ScratchFolder folder;
  format::GgufKeys keys;
  keys.add_string("general.architecture", "plumb_hybrid");
  auto writer = format::create_gguf(folder.file("x.gguf"), keys, {{"token_embd.weight", DType::f32, {8, 8}}});
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  const std::vector<float> values(64);
  ASSERT_TRUE(writer->append_tensor("token_embd.weight", std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto spec = model::read_spec(format::Checkpoint::open(folder.file("x.gguf")).value());
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, ErrorCode::unsupported);
  EXPECT_EQ(spec.error().message.find("plumb_hybrid"), std::string::npos) << spec.error().to_string();
}

TEST(Hybrid, LoweringNeedsStateSlots) {
  const HybridModel recurrent({"--layer-types", "recurrent"});
  const HybridModel mixed;
  for (const HybridModel* model : {&recurrent, &mixed}) {
    const auto without = ProgramRun::open(model->path(), {.state_slots = 0});
    ASSERT_FALSE(without.ok());
    EXPECT_EQ(without.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(without.error().field, "state_slots");
  }
}

TEST(Hybrid, ProgramHasAStateSlotForEachRecurrentLayer) {
  const HybridModel model;
  const auto run = model.open({.sequences = 3, .state_slots = 5});
  std::map<std::string, kernels::Slot> found;
  for (const kernels::Slot& slot : run->program().slots) {
    if (slot.name.starts_with("state.")) found[slot.name] = slot;
  }
  ASSERT_EQ(found.size(), 5U);  // with the relay and the lengths
  EXPECT_EQ(found.at("state.slots").bytes, 3U * 4);
  std::uint64_t states = 0;
  for (const char* name : {"state.recurrent.layer0", "state.recurrent.layer2"}) {
    EXPECT_EQ(found.at(name).kind, kernels::SlotKind::state);
    states += found.at(name).bytes;
  }
  EXPECT_EQ(states, 5 * model::recurrent_state_bytes(run->spec()));
}

struct Shape {
  const char* name;
  std::vector<std::string> flags;
};
class HybridShape : public testing::TestWithParam<Shape> {};

// Prompts in pieces, decode, and both in one step, past the window; the references run the same steps.
TEST_P(HybridShape, KernelsMatchTheReferencesOverManySteps) {
  const HybridModel model(GetParam().flags);
  std::vector<std::vector<Row>> steps = {rows(0, 0, 23), rows(2, 0, 9) + rows(0, 23, 18), rows(0, 41, 1) + rows(1, 0, 30) + rows(2, 9, 1)};
  for (std::int32_t i = 0; i < 12; ++i) steps.push_back(rows(2, 10 + i, 1) + rows(0, 42 + i, 1) + rows(1, 30 + i, 1));
  const auto start = [&](int threads, kernels::Isa isa) {
    auto run = model.open({.rows = 48, .context = 64, .sequences = 3, .state_slots = 4, .threads = threads, .isa = isa});
    for (const auto& [sequence, slot] : {std::pair{0, 3}, {1, 0}, {2, 2}}) {
      run->give_slot(sequence, slot);
      run->zero_slot(slot);
    }
    return run;
  };
  const auto reference = start(0, kernels::Isa::portable);
  std::vector<std::vector<float>> wanted;
  for (const auto& step : steps) wanted.push_back(reference->step(step).value());
  for (const kernels::Isa isa : kernels::available_isas()) {
    const auto run = start(2, isa);
    Difference logits;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto got = run->step(steps[i]);
      ASSERT_TRUE(got.ok()) << got.error().to_string();
      logits.add(wanted[i], *got);
    }
    EXPECT_GT(logits.scale, 1.0) << "a model that says nothing compares equal to anything";
    EXPECT_LT(logits.largest, 1e-5 * logits.scale);
    Difference states;
    for (const std::int32_t slot : {0, 2, 3}) states.add(reference->state(slot), run->state(slot));
    EXPECT_GT(states.scale, 0.1);
    EXPECT_LT(states.largest, 1e-5 * states.scale);
    EXPECT_TRUE(std::isnan(run->state(1).front())) << "nobody holds slot 1";
  }
}

// One prompt: whole, in pieces of every kind, on any number of threads, in another slot, beside another sequence.
TEST_P(HybridShape, BitsDoNotDependOnHowAPromptIsCut) {
  constexpr std::int32_t kLength = 45;
  const HybridModel model(GetParam().flags);
  struct Way {
    std::vector<std::int32_t> cuts;
    int threads;
    std::int32_t slot;
    bool company;
  };
  const std::vector<Way> ways = {{{kLength}, 1, 0, false}, {{23, 22}, 2, 1, false}, {{1, 44}, 3, 2, true},
                                 {{7, 7, 7, 7, 7, 7, 3}, 2, 0, true}, {std::vector<std::int32_t>(kLength, 1), 1, 2, true}};
  std::vector<float> logits;
  std::vector<float> state;
  for (const Way& way : ways) {
    auto run = model.open({.rows = 48, .context = 64, .sequences = 2, .state_slots = 3, .threads = way.threads});
    const std::int32_t other = (way.slot + 1) % 3;
    run->give_slot(1, way.slot);
    run->give_slot(0, other);
    run->zero_slot(way.slot);
    run->zero_slot(other);
    std::vector<float> all;
    std::int32_t done = 0;
    for (std::size_t i = 0; i < way.cuts.size(); ++i) {
      const auto company = way.company ? rows(0, static_cast<std::int32_t>(i), 1) : std::vector<Row>{};
      const auto got = run->step(company + rows(1, done, way.cuts[i]));
      ASSERT_TRUE(got.ok()) << got.error().to_string();
      all.insert(all.end(), got->begin() + static_cast<std::ptrdiff_t>(company.size()) * run->spec().vocab, got->end());
      done += way.cuts[i];
    }
    if (logits.empty()) {
      logits = all;
      state = run->state(way.slot);
    }
    EXPECT_EQ(all, logits) << way.cuts.size() << " pieces";
    EXPECT_EQ(run->state(way.slot), state) << way.cuts.size() << " pieces";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HybridShape,
                         testing::Values(Shape{"preset", {}}, Shape{"recurrent_only", {"--layer-types", "recurrent", "--layers", "3"}},
                                         Shape{"odd", {"--recurrent-heads", "3", "--key-dim", "7", "--value-dim", "13"}},
                                         Shape{"wide_values", {"--recurrent-heads", "1", "--key-dim", "24", "--value-dim", "136"}},
                                         Shape{"one_class", {"--layer-types", "full,recurrent", "--seed", "9"}}),
                         [](const auto& shape) { return std::string(shape.param.name); });

// A copy of a slot stands for the rows the slot had seen: the two texts go on alike. One row more or less and they do not.
TEST(Hybrid, ACopiedStateContinuesAsTheOriginalDid) {
  const HybridModel model({"--layer-types", "recurrent"});
  const auto run = model.open({.sequences = 2, .state_slots = 3});
  run->give_slot(0, 1);
  run->zero_slot(1);
  ASSERT_TRUE(run->step(rows(0, 0, 40)).ok());
  run->copy_slot(1, 2);
  const auto original = run->step(rows(0, 40, 10)).value();
  const auto state = run->state(1);

  const auto continued = [&](std::int32_t from) {
    run->give_slot(1, from);
    std::vector<Row> same = rows(0, 40, 10);
    for (Row& row : same) row.sequence = 1;
    return run->step(same).value();
  };
  run->copy_slot(2, 0);
  EXPECT_EQ(continued(0), original);
  EXPECT_EQ(run->state(0), state);
  run->copy_slot(2, 0);
  ASSERT_TRUE(run->step({{token(0, 39), 39, 1}}).ok());  // position 39 a second time
  EXPECT_NE(continued(0), original);
}

// Whoever hands out a slot must clear it: what another text left there changes the answers, and garbage makes them NaN.
TEST(Hybrid, AnUnclearedSlotChangesTheAnswers) {
  const HybridModel model;
  const auto run = model.open({.sequences = 2, .state_slots = 2});
  run->give_slot(0, 1);
  run->zero_slot(1);
  const auto clean = run->step(rows(0, 0, 8)).value();
  EXPECT_NE(run->step(rows(0, 0, 8)).value(), clean);
  run->zero_slot(1);
  EXPECT_EQ(run->step(rows(0, 0, 8)).value(), clean);

  run->give_slot(1, 0);
  EXPECT_FALSE(run->step(rows(1, 0, 8)).ok()) << "slot 0 was never written; the sampler counts the NaN";
}

TEST(Hybrid, ARowWithoutASlotFailsTheStepByName) {
  const HybridModel model;
  const auto run = model.open({.sequences = 2, .state_slots = 2});
  for (const std::int32_t slot : {kernels::kNoStateSlot, 2}) {
    run->give_slot(0, slot);
    const auto step = run->step(rows(0, 0, 4));
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.error().code, ErrorCode::device_fault);
    EXPECT_NE(step.error().to_string().find("gated_delta"), std::string::npos) << step.error().to_string();
  }
}

// Random weights make a model that remembers: its state neither dies nor grows without end, and a word said a hundred tokens ago
// is still heard, but not for ever.
TEST(Hybrid, TheStateOfARandomModelLivesAndForgets) {
  for (const char* seed : {"0", "1", "2"}) {
    const HybridModel model({"--layer-types", "recurrent", "--layers", "4", "--seed", seed});
    const auto after = [&](std::int32_t first, std::int32_t length) {
      const auto run = model.open({.rows = 64, .context = 4096, .sequences = 1, .state_slots = 1});
      run->give_slot(0, 0);
      run->zero_slot(0);
      std::vector<float> last;
      for (std::int32_t p = 0; p < length; p += 64) {
        auto chunk = rows(0, p, 64);
        if (p == 0) chunk[0].token = first;
        last = run->step(chunk).value();
      }
      const std::vector<float> state = run->state(0);
      double squares = 0;
      for (const float x : state) squares += static_cast<double>(x) * static_cast<double>(x);
      const double rms = std::sqrt(squares / static_cast<double>(state.size()));
      EXPECT_GT(rms, 0.05) << length;
      EXPECT_LT(rms, 5.0) << length;
      return std::vector<float>(last.end() - run->spec().vocab, last.end());
    };
    const auto heard = [&](std::int32_t length) {
      Difference d;
      d.add(after(3, length), after(250, length));
      return d.largest / d.scale;
    };
    EXPECT_GT(heard(128), 1e-4) << seed;
    EXPECT_LT(heard(4096), heard(64)) << seed;
  }
}

}  // namespace
}  // namespace plumb
