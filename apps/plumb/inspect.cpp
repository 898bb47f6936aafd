// plumb inspect: what a checkpoint is and what it costs to run, from its spec and its tensor table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "base/status.h"
#include "decode/memory_plan.h"
#include "format/checkpoint.h"
#include "model/arch/table.h"
#include "model_facts.h"
#include "plumb/plumb.h"
#include "serve/open_plan.h"
#include "verb.h"

namespace plumb::app {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string model;
  EngineOptions engine;
  std::optional<std::int32_t> depth;
  bool tensors = false;
};

struct TypeRow {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

std::map<std::string, TypeRow> by_dtype(const format::Checkpoint& checkpoint) {
  std::map<std::string, TypeRow> rows;
  for (const format::TensorView& tensor : checkpoint.tensors()) {
    TypeRow& row = rows[std::string(to_string(tensor.dtype))];
    ++row.tensors;
    row.elements += tensor.elements();
    row.bytes += tensor.data.size();
  }
  return rows;
}

// The settings, in words. The keys of a GGUF file, vocabulary lists included as "[string x 201088]"; config.json otherwise.
std::vector<std::pair<std::string, std::string>> settings(const format::Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const format::MetaEntry& entry : checkpoint.metadata().entries()) {
    out.emplace_back(printable(entry.key, 256), format::describe(entry.value));
  }
  if (checkpoint.container() == format::Container::gguf) return out;
  if (const auto config = model::read_config(checkpoint); config.ok()) {
    for (auto& row : config->describe_all()) out.push_back(std::move(row));
  }
  return out;
}

struct Model {
  model::DecoderSpec spec;
  ModelFacts facts;
  decode::MemoryUse use;
};

Result<Model> read_model(const format::Checkpoint& checkpoint, const Options& o) {
  Model m;
  PLUMB_ASSIGN(m.spec, model::read_spec(checkpoint));
  PLUMB_ASSIGN(model::DecoderWeights weights, model::read_weights(checkpoint, m.spec));
  if (o.engine.context > m.spec.max_positions) {
    return usage_error("--ctx", fmt::format("the model has {} positions", m.spec.max_positions), std::to_string(o.engine.context));
  }
  const auto kv = kernels::parse_kv_format("kv", o.engine.kv);
  if (!kv.ok()) return usage_error("--kv-type", kv.error().message, o.engine.kv);
  const std::int32_t context = context_of(o.engine, m.spec);
  const std::int32_t depth = o.depth.value_or(context - 1);
  if (depth >= context) return usage_error("--depth", fmt::format("must be below the context, {}", context), std::to_string(depth));
  PLUMB_ASSIGN(m.facts, model_facts(m.spec, weights, {.context = context, .depth = depth, .chunk_rows = o.engine.chunk_rows, .kv = *kv}));
  PLUMB_ASSIGN(const OpenPlan plan, plan_open(o.engine, m.spec, std::move(weights)));
  m.use = decode::plan_memory(plan.lowered, plan.layout, plan.executor).use;
  return m;
}

struct LayerRow {
  const char* kind;
  std::int32_t window = 0, head_dim = 0, q_heads = 0, kv_heads = 0, experts = 0, top_k = 0;
};

LayerRow layer_row(const model::LayerSpec& layer) {
  LayerRow row{.kind = model::mixer_class(layer.mixer)};
  if (const auto* a = std::get_if<model::AttentionSpec>(&layer.mixer)) {
    row.window = a->window;
    row.head_dim = a->head_dim;
    row.q_heads = a->q_heads;
    row.kv_heads = a->kv_heads;
  }
  if (const auto* moe = std::get_if<model::MoeSpec>(&layer.ffn)) {
    row.experts = moe->experts;
    row.top_k = moe->top_k;
  }
  return row;
}

struct UseRow {
  const char* key;
  const char* what;
  std::uint64_t bytes;
};

// What an engine with these options holds, in the order of its opening.
std::vector<UseRow> use_rows(const decode::MemoryUse& use) {
  return {{"mapped_weights_bytes", "weights read in the file", use.mapped_weights},
          {"packed_weights_bytes", "weights packed at load", use.packed_weights},
          {"constants_bytes", "vectors", use.constants},
          {"kv_bytes", "KV pages, states", use.kv},
          {"activations_bytes", "activations", use.activations},
          {"results_bytes", "results", use.results}};
}

// ---- JSON

ordered_json file_document(const format::Checkpoint& c) {
  ordered_json files = ordered_json::array();
  for (const auto& file : c.files()) files.push_back({{"path", file.path}, {"bytes", file.bytes}});
  ordered_json metadata = ordered_json::object();
  for (const auto& [key, value] : settings(c)) metadata[key] = value;
  ordered_json tensors = ordered_json::array();
  for (const auto& t : c.tensors()) {
    tensors.push_back({{"name", t.name}, {"dtype", to_string(t.dtype)}, {"shape", t.shape}, {"bytes", t.data.size()},
                       {"file", t.file}, {"offset", t.offset}});
  }
  ordered_json types = ordered_json::array();
  for (const auto& [name, row] : by_dtype(c)) {
    types.push_back({{"dtype", name}, {"tensors", row.tensors}, {"elements", row.elements}, {"bytes", row.bytes}});
  }
  return {{"path", c.path()}, {"container", format::to_string(c.container())}, {"files", std::move(files)},
          {"metadata", std::move(metadata)}, {"tensors", std::move(tensors)}, {"by_dtype", std::move(types)}};
}

ordered_json layers_document(const model::DecoderSpec& spec) {
  ordered_json layers = ordered_json::array();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerRow row = layer_row(spec.layers[i]);
    layers.push_back({{"layer", i}, {"class", row.kind}, {"window", row.window}, {"head_dim", row.head_dim},
                      {"q_heads", row.q_heads}, {"kv_heads", row.kv_heads}, {"experts", row.experts}, {"top_k", row.top_k}});
  }
  return layers;
}

void add_model(ordered_json& document, const Model& m, const Options& o) {
  const ModelFacts& f = m.facts;
  document["model"] = {{"family", m.spec.family}, {"vocab", m.spec.vocab}, {"hidden", m.spec.hidden},
                       {"max_positions", m.spec.max_positions}, {"tied_head", m.spec.tied_head},
                       {"parameters", f.parameters()}, {"layers", layers_document(m.spec)}};
  ordered_json held = ordered_json::array();
  ordered_json read = ordered_json::array();
  for (const WeightClass& c : f.weights) {
    held.push_back({{"class", c.name}, {"bytes", c.bytes}});
    read.push_back({{"class", c.name}, {"bytes", c.bytes_per_token}});
  }
  ordered_json kv = ordered_json::array();
  for (const KvClassFacts& c : f.kv) {
    kv.push_back({{"class", c.name}, {"window", c.window}, {"layers", c.layers}, {"bytes_per_1k", c.bytes_per_position * 1000},
                  {"bytes_at_ctx", c.bytes_at_context}});
  }
  ordered_json engine = {{"act", o.engine.act}, {"parallel", o.engine.max_requests}};
  for (const UseRow& row : use_rows(m.use)) engine[row.key] = row.bytes;
  engine["total_bytes"] = m.use.total();
  document["memory"] = {{"weights", std::move(held)}, {"weights_bytes", f.weight_bytes()}, {"ctx", f.context},
                        {"kv_type", o.engine.kv}, {"kv", std::move(kv)}, {"kv_bytes", f.kv_bytes()},
                        {"state_bytes", f.state_bytes}, {"engine", std::move(engine)}};
  document["per_token"] = {{"weights", std::move(read)},
                           {"weights_bytes", f.weight_bytes_per_token()},
                           {"depth", f.depth},
                           {"kv_bytes_at_depth", f.kv_bytes_read_at_depth()},
                           {"state_bytes", f.state_bytes},
                           {"bytes_at_0", f.bytes_read_at_zero()},
                           {"bytes_at_depth", f.bytes_read_at_depth()}};
}

ordered_json error_document(const Error& e) {
  return {{"code", to_string(e.code)}, {"message", e.message}, {"subject", e.subject}, {"field", e.field}, {"value", e.value}};
}

// ---- text

void print_file(Console& console, const format::Checkpoint& c, bool all_tensors) {
  std::uint64_t bytes = 0;
  for (const auto& file : c.files()) bytes += file.bytes;
  console.print(fmt::format("{}: {}, {} file{}, {}, {} tensors\n\n", c.path(), format::to_string(c.container()), c.files().size(),
                            c.files().size() == 1 ? "" : "s", bytes_text(bytes), c.tensors().size()));
  for (const auto& [key, value] : settings(c)) console.print(fmt::format("  {:<45} {}\n", key, value));
  console.print(fmt::format("\n{:<12} {:>8} {:>16} {:>10}\n", "dtype", "tensors", "elements", "bytes"));
  for (const auto& [name, row] : by_dtype(c)) {
    console.print(fmt::format("{:<12} {:>8} {:>16} {:>10}\n", name, row.tensors, grouped(row.elements), bytes_text(row.bytes)));
  }
  if (!all_tensors) return;
  console.print("\n");
  for (const auto& t : c.tensors()) {
    console.print(fmt::format("{:<60} {:<8} {:<22} {:>10}\n", printable(t.name), to_string(t.dtype), format::shape_text(t.shape),
                              bytes_text(t.data.size())));
  }
}

void print_model(Console& console, const Model& m, const Options& o) {
  const ModelFacts& f = m.facts;
  console.print(fmt::format("\n{}: {} parameters, vocabulary {}, hidden {}, {} positions\n\n", m.spec.family, grouped(f.parameters()),
                            grouped(static_cast<std::uint64_t>(m.spec.vocab)), m.spec.hidden,
                            grouped(static_cast<std::uint64_t>(m.spec.max_positions))));
  console.print("layer class              window head_dim q_heads kv_heads experts top_k\n");
  for (std::size_t i = 0; i < m.spec.layers.size(); ++i) {
    const LayerRow r = layer_row(m.spec.layers[i]);
    console.print(fmt::format("{:>5} {:<18} {:>6} {:>8} {:>7} {:>8} {:>7} {:>5}\n", i, r.kind, r.window, r.head_dim, r.q_heads,
                              r.kv_heads, r.experts, r.top_k));
  }
  console.print(fmt::format("\n{:<12} {:>10} {:>14}\n", "weights", "held", "read per token"));
  for (const WeightClass& c : f.weights) {
    console.print(fmt::format("{:<12} {:>10} {:>14}\n", c.name, bytes_text(c.bytes), bytes_text(c.bytes_per_token)));
  }
  console.print(fmt::format("{:<12} {:>10} {:>14}\n", "in all", bytes_text(f.weight_bytes()), bytes_text(f.weight_bytes_per_token())));
  console.print(fmt::format("\n{:<24} {:>6} {:>10} {:>14} {:>16}\n", "KV (" + o.engine.kv + ")", "layers", "per 1,000",
                            fmt::format("at ctx {}", f.context), fmt::format("read at {}", f.depth)));
  for (const KvClassFacts& c : f.kv) {
    const std::string name = c.window == 0 ? c.name : fmt::format("{} {}", c.name, c.window);
    console.print(fmt::format("{:<24} {:>6} {:>10} {:>14} {:>16}\n", name, c.layers, bytes_text(c.bytes_per_position * 1000),
                              bytes_text(c.bytes_at_context), bytes_text(c.bytes_read_at_depth)));
  }
  if (f.recurrent_layers > 0) {
    console.print(fmt::format("\nrecurrent state of {} layers: {} a sequence, read and written for each token\n", f.recurrent_layers,
                              bytes_text(f.state_bytes)));
  }
  console.print(fmt::format("\nengine of {} requests, --act {}\n", o.engine.max_requests, o.engine.act));
  for (const UseRow& row : use_rows(m.use)) console.print(fmt::format("{:<24} {:>10}\n", row.what, bytes_text(row.bytes)));
  console.print(fmt::format("{:<24} {:>10}, of which KV pages take memory only as positions are used\n", "in all", bytes_text(m.use.total())));
  console.print(fmt::format("\nread per decoded token: {} at depth 0, {} at depth {}\n", bytes_text(f.bytes_read_at_zero()),
                            bytes_text(f.bytes_read_at_depth()), f.depth));
}

Result<ExitCode> run(const Options& o, Console& console) {
  PLUMB_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(o.model));
  const auto model = read_model(checkpoint, o);
  if (!model.ok() && is_usage_error(model.error())) return model.error();
  if (!console.json) {
    print_file(console, checkpoint, o.tensors);
    if (!model.ok()) return model.error();
    print_model(console, model.value(), o);
    return ExitCode::ok;
  }
  ordered_json document = file_document(checkpoint);
  if (model.ok()) {
    add_model(document, model.value(), o);
  } else {
    for (const char* part : {"model", "memory", "per_token"}) document[part] = nullptr;
    document["model_error"] = error_document(model.error());
  }
  console.print_json(document);
  return model.ok() ? ExitCode::ok : ExitCode::failure;
}

}  // namespace

Action add_inspect(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  command.add_option("MODEL", o.model, "folder in the Hugging Face layout, .safetensors or .gguf file")->required();
  command.add_option("--ctx", o.engine.context, "positions to reckon the KV cache for (default: the model's, at most 32768)")
      ->check(CLI::Range(1, 1 << 24));
  command.add_option("--depth", o.depth, "depth to reckon bytes per token at (default: --ctx minus one)")->check(CLI::Range(0, 1 << 24));
  command.add_option("--kv,--kv-type", o.engine.kv, "form of the KV cache: f32, f16, bf16, q8")->capture_default_str();
  command.add_option("--act", o.engine.act, "activations of quantised products: with q8 those weights are packed at load; f32 reads all in the file")
      ->check(CLI::IsMember({"f32", "q8"}))
      ->capture_default_str();
  command.add_option("--parallel", o.engine.max_requests, "requests computed together")->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_flag("--tensors", o.tensors, "list every tensor");
  return [options](Console& console) { return run(*options, console); };
}

}  // namespace plumb::app
