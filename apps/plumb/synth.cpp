// plumb synth: random-weight checkpoints of the gpt-oss architecture and of our hybrid family, in any geometry.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "checkpoint_output.h"
#include "device/cpu/host_info.h"
#include "geometry.h"
#include "gpt_oss_gguf.h"
#include "synth_hf.h"
#include "synth_tensors.h"
#include "synth_vocabulary.h"
#include "verb.h"

namespace plumb::app {
namespace {

struct Options {
  std::string preset = "tiny";
  // What the command line says over the preset.
  std::optional<std::uint64_t> layers, hidden, heads, kv_heads, head_dim, experts, top_k, ffn, vocab, window, positions;
  std::optional<std::uint64_t> recurrent_heads, key_dim, value_dim;
  std::optional<std::string> layer_types;
  std::string attention;
  std::string embedding;
  std::uint64_t seed = 0;
  std::string file;
  std::string folder;
  std::uint64_t shard_mb = 4800;
  int threads = 0;
};

Preset preset_of(const Options& o) {
  for (const Preset& preset : presets()) {
    if (preset.name == o.preset) return preset;
  }
  return {};  // the parser knows the names
}

// Options of the other family would be silently lost.
Status check_family(const Options& o, bool hybrid) {
  const std::pair<const char*, bool> foreign[] = {
      {"--experts", hybrid && o.experts.has_value()},          {"--top-k", hybrid && o.top_k.has_value()},
      {"--recurrent-heads", !hybrid && o.recurrent_heads.has_value()}, {"--key-dim", !hybrid && o.key_dim.has_value()},
      {"--value-dim", !hybrid && o.value_dim.has_value()}};
  for (const auto& [option, given] : foreign) {
    if (given) return usage_error(option, hybrid ? "hybrid layers are dense" : "only hybrid presets have recurrent layers", o.preset);
  }
  return {};
}

Result<Geometry> geometry_of(const Options& o) {
  const Preset preset = preset_of(o);
  Geometry g = preset.geometry;
  PLUMB_TRY(check_family(o, g.hybrid()));
  const std::pair<const std::optional<std::uint64_t>&, std::uint64_t&> given[] = {
      {o.layers, g.layers},   {o.hidden, g.hidden}, {o.heads, g.heads}, {o.kv_heads, g.kv_heads},
      {o.head_dim, g.head_dim}, {o.experts, g.experts}, {o.top_k, g.top_k}, {o.ffn, g.ffn},
      {o.vocab, g.vocab},     {o.window, g.window}, {o.positions, g.max_positions},
      {o.recurrent_heads, g.recurrent_heads}, {o.key_dim, g.key_dim}, {o.value_dim, g.value_dim}};
  for (const auto& [option, field] : given) {
    if (option.has_value()) field = *option;
  }
  const auto pattern = CLI::detail::split(o.layer_types.value_or(std::string(preset.layer_types)), ',');
  for (const std::string& type : pattern) {
    if (type == "sliding" || type == "full" || (g.hybrid() && type == "recurrent")) continue;
    return usage_error("--layer-types", g.hybrid() ? "is a list of recurrent, sliding and full" : "is a list of sliding and full", type);
  }
  for (std::uint64_t i = 0; i < g.layers; ++i) {
    g.sliding.push_back(pattern[i % pattern.size()] == "sliding");
    g.recurrent.push_back(pattern[i % pattern.size()] == "recurrent");
  }
  return g;
}

Result<MatrixTypes> types_of(const Options& o) {
  const bool hf = !o.folder.empty();
  const std::string attention = !o.attention.empty() ? o.attention : hf ? "bf16" : "q8_0";
  const std::string embedding = !o.embedding.empty() ? o.embedding : attention;
  const MatrixTypes types{*dtype_from_name(attention), *dtype_from_name(embedding)};  // names were checked by the parser
  for (const auto& [option, type] : {std::pair{"--attn", types.attention}, std::pair{"--embed", types.embedding}}) {
    if (hf && dtype_info(type).block_elements != 1) {
      return usage_error(option, "the Hugging Face layout stores bf16, f16 or f32", std::string(to_string(type)));
    }
  }
  return types;
}

std::string model_name(const Options& o) { return fmt::format("synthetic {} (seed {})", o.preset, o.seed); }

nlohmann::ordered_json document(const Options& o, const Geometry& g, const MatrixTypes& types, const Written& written,
                                std::size_t tensors) {
  nlohmann::ordered_json geometry = {{"layers", g.layers},
                                     {"hidden", g.hidden},
                                     {"heads", g.heads},
                                     {"kv_heads", g.kv_heads},
                                     {"head_dim", g.head_dim},
                                     {"experts", g.experts},
                                     {"top_k", g.top_k},
                                     {"ffn", g.ffn},
                                     {"vocab", g.vocab},
                                     {"window", g.window},
                                     {"sliding_layers", std::count(g.sliding.begin(), g.sliding.end(), true)},
                                     {"attn", to_string(types.attention)},
                                     {"embed", to_string(types.embedding)}};
  if (g.hybrid()) {
    geometry["recurrent_layers"] = std::count(g.recurrent.begin(), g.recurrent.end(), true);
    geometry["recurrent_heads"] = g.recurrent_heads;
    geometry["key_dim"] = g.key_dim;
    geometry["value_dim"] = g.value_dim;
  }
  return {{"container", o.folder.empty() ? "gguf" : "safetensors"},
          {"files", written.files},
          {"seed", o.seed},
          {"geometry", std::move(geometry)},
          {"parameters", parameter_count(g)},
          {"active_parameters", active_parameter_count(g)},
          {"tensors", tensors},
          {"tensor_bytes", written.bytes},
          {"digest", written.digest},
          {"seconds", written.seconds}};
}

Result<ExitCode> run(const Options& o, Console& console) {
  if (o.file.empty() == o.folder.empty()) return usage_error("-o", "exactly one of -o FILE.gguf and --hf DIR is needed");
  PLUMB_ASSIGN(const Geometry geometry, geometry_of(o));
  PLUMB_ASSIGN(const MatrixTypes types, types_of(o));
  PLUMB_TRY(check_geometry(geometry, types));
  if (o.folder.empty() && geometry.hybrid()) return usage_error("-o", "hybrid models have no GGUF form; use --hf", o.file);
  if (o.folder.empty() && !geometry.alternates()) {
    return usage_error("--layer-types", "a gpt-oss GGUF file cannot say it: its readers assume sliding,full; use --hf",
                       o.layer_types.value_or(""));
  }
  const WriteOptions options{.threads = o.threads > 0 ? o.threads : device::usable_cores(), .quiet = console.quiet};
  const VocabularyData vocabulary = synth_vocabulary(geometry.vocab);
  Written written;
  std::vector<TensorJob> jobs;
  if (o.folder.empty()) {
    format::GgufKeys keys;
    add_gpt_oss_keys(keys, geometry, model_name(o));
    add_vocabulary_keys(keys, vocabulary);
    jobs = synth_gguf_tensors(geometry, types, o.seed);
    PLUMB_ASSIGN(written, write_gguf(o.file, keys, jobs, options));
  } else {
    jobs = geometry.hybrid() ? synth_hybrid_tensors(geometry, types, o.seed) : synth_hf_tensors(geometry, types, o.seed);
    PLUMB_ASSIGN(written, write_safetensors(o.folder, jobs, o.shard_mb * 1'000'000, options));
    PLUMB_TRY(write_hf_files(o.folder, geometry, vocabulary, types.attention));
  }
  if (console.json) {
    console.print_json(document(o, geometry, types, written, jobs.size()));
    return ExitCode::ok;
  }
  const std::string kind = geometry.hybrid() ? fmt::format("{} recurrent", std::count(geometry.recurrent.begin(), geometry.recurrent.end(), true))
                                             : fmt::format("{} experts top-{}", geometry.experts, geometry.top_k);
  console.print(fmt::format("{}: {} layers, hidden {}, {}; {} parameters, {} active; {} tensors, {}; digest {}\n",
                            o.folder.empty() ? o.file : o.folder, geometry.layers, geometry.hidden, kind,
                            grouped(parameter_count(geometry)), grouped(active_parameter_count(geometry)), jobs.size(),
                            bytes_text(written.bytes), written.digest));
  return ExitCode::ok;
}

void add_size(CLI::App& command, const std::string& name, std::optional<std::uint64_t>& value, std::uint64_t most, const std::string& help) {
  command.add_option(name, value, help)->check(CLI::Range(std::uint64_t{1}, most))->group("Geometry");
}

}  // namespace

Action add_synth(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  std::vector<std::string> names;
  std::string listed;
  for (const Preset& preset : presets()) {
    names.emplace_back(preset.name);
    listed += fmt::format("\n  {:<14}{}", preset.name, preset.help);
  }
  command.footer("\nPresets:" + listed +
                 "\n\nThe weights are random and finite: good for speed and memory, meaningless as text. The same options and seed give"
                 "\nthe same bytes, whatever the number of threads.");
  command.add_option("-o,--output", o.file, "GGUF file to write")->type_name("FILE");
  command.add_option("--hf", o.folder, "folder to write in the Hugging Face layout instead")->type_name("DIR");
  command.add_option("--preset", o.preset, "geometry to start from")->check(CLI::IsMember(names))->capture_default_str();
  command.add_option("--seed", o.seed, "seed of all weights")->capture_default_str();
  command.add_option("--threads", o.threads, "threads; 0: one per usable core")->check(CLI::Range(0, 1024))->capture_default_str();
  command.add_option("--shard-mb", o.shard_mb, "with --hf: most MB of one shard")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))->capture_default_str();
  const CLI::IsMember types({"q8_0", "q4_0", "bf16", "f16", "f32"});
  command.add_option("--attn", o.attention, "type of attention matrices (default q8_0; bf16 with --hf)")->check(types)->group("Geometry");
  command.add_option("--embed", o.embedding, "type of embedding and head (default: as --attn)")->check(types)->group("Geometry");
  add_size(command, "--layers", o.layers, 4096, "decoder layers");
  add_size(command, "--hidden", o.hidden, 1U << 20, "hidden size, a multiple of 32");
  add_size(command, "--heads", o.heads, 4096, "query heads, a multiple of --kv-heads");
  add_size(command, "--kv-heads", o.kv_heads, 4096, "key and value heads");
  add_size(command, "--head-dim", o.head_dim, 512, "width of a head, a multiple of 8");
  add_size(command, "--experts", o.experts, 4096, "experts of a layer");
  add_size(command, "--top-k", o.top_k, 32, "experts a token passes through");
  add_size(command, "--ffn", o.ffn, 1U << 20, "width of an expert, a multiple of 32");
  add_size(command, "--vocab", o.vocab, 1U << 24, "vocabulary, at least 266");
  add_size(command, "--window", o.window, 1U << 24, "positions a sliding layer sees");
  add_size(command, "--positions", o.positions, 1U << 24, "most positions of a sequence");
  add_size(command, "--recurrent-heads", o.recurrent_heads, 4096, "heads of a recurrent layer; hybrid presets only");
  add_size(command, "--key-dim", o.key_dim, 512, "rows of a recurrent head's state; hybrid presets only");
  add_size(command, "--value-dim", o.value_dim, 512, "columns of a recurrent head's state; hybrid presets only");
  command.add_option("--layer-types", o.layer_types,
                     "repeated over the layers: sliding,full unless the preset says otherwise; other patterns need --hf")
      ->group("Geometry");
  return [options](Console& console) { return run(*options, console); };
}

}  // namespace plumb::app
