#include "engine_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/status.h"
#include "format/config.h"
#include "serve/engine_impl.h"

namespace plumb::app {

void add_engine_options(CLI::App& command, std::string& model, EngineOptions& options) {
  command.add_option("MODEL", model, "a folder in Hugging Face layout, a .safetensors or a .gguf file")->required();
  command.add_option("--threads", options.threads, "CPU worker threads; 0: one per physical core that this process may use")->check(CLI::Range(0, 512))->capture_default_str();
  command.add_flag("--pin", options.pin, "keep each CPU worker on a core of its own");
  command.add_option("--ctx", options.context, "positions that prompt and answer may reach together; 0: the model's own, at most 32768")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--loop", options.loop, "decode loop: chained[:k] with k steps launched ahead of the host (4), or standard")->capture_default_str();
  command.add_option("--isa", options.isa, "CPU kernels of this instruction set at most; `plumb devices` lists those there are (default: the best)");
  command.add_option("--act", options.act, "activations of quantised products: q8 (signed bytes) or f32 (the exact path)")
      ->check(CLI::IsMember({"f32", "q8"}))
      ->capture_default_str();
  command.add_option("--kv", options.kv, "form of cached keys and values: f32, f16, bf16 or q8 (signed bytes, a scale for each row of each head)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8"}))
      ->capture_default_str();
  command.add_option("--attention", options.attention,
                     "attention kernels: auto (as measured), off (the plain one), or a number of tasks for each row's keys; no bit depends on it");
  command.add_flag("--checked", options.checked, "guard bands and poison around every buffer, indices counted");
  command.add_flag("--diag", options.diag, "run op by op with a check after each; a fault names kernel, layer and buffer");
}

void add_sampling_options(CLI::App& command, SamplingOptions& options) {
  CLI::Option* greedy = command.add_flag("--greedy", options.greedy, "always the most probable token; no random numbers are drawn");
  command.add_option("--temp", options.temperature, "sampling temperature; 0 is greedy")->check(CLI::NonNegativeNumber)->excludes(greedy);
  command.add_option("--top-p", options.top_p, "the smallest set of tokens whose probability reaches this")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(greedy);
  command.add_option("--top-k", options.top_k, "the K most probable tokens; 0: all")->check(CLI::NonNegativeNumber)->excludes(greedy);
  command.add_option("--min-p", options.min_p, "tokens at least this fraction as probable as the best")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(greedy);
  command.add_option("--seed", options.seed, "of the sampler; the same seed gives the same text")->excludes(greedy)->capture_default_str();
  command.footer(
      "\nWithout --greedy, --temp, --top-p, --top-k and --min-p, sampling follows the model's generation_config.json; a model\n"
      "without that file (every GGUF) is greedy.");
}

Result<Sampling> sampling_for(const SamplingOptions& options, const Engine& engine) {
  Sampling s;
  s.seed = options.seed;
  if (options.greedy) return s;
  const bool given = options.temperature >= 0 || options.top_p >= 0 || options.top_k >= 0 || options.min_p >= 0;
  if (given) {
    s.temperature = options.temperature >= 0 ? options.temperature : 1;
    if (options.top_p >= 0) s.top_p = options.top_p;
    if (options.top_k >= 0) s.top_k = options.top_k;
    if (options.min_p >= 0) s.min_p = options.min_p;
    return s;
  }
  const auto& checkpoint = engine.impl().checkpoint();
  const std::string file = (std::filesystem::path(checkpoint.directory()) / "generation_config.json").string();
  if (checkpoint.container() != format::Container::safetensors || !std::filesystem::exists(file)) return s;
  PLUMB_ASSIGN(const format::Config config, format::Config::from_file(file));
  PLUMB_ASSIGN(const bool do_sample, config.optional_bool("do_sample", false));
  if (!do_sample) return s;
  PLUMB_ASSIGN(const double temperature, config.optional_real("temperature", 1, {0, 100}));
  PLUMB_ASSIGN(const double top_p, config.optional_real("top_p", 1, {0, 1}));
  PLUMB_ASSIGN(const double min_p, config.optional_real("min_p", 0, {0, 1}));
  PLUMB_ASSIGN(const std::uint64_t top_k, config.optional_uint("top_k", 0, {0, INT32_MAX}));
  s.temperature = static_cast<float>(temperature);
  s.top_p = static_cast<float>(top_p);
  s.min_p = static_cast<float>(min_p);
  s.top_k = static_cast<std::int32_t>(top_k);
  return s;
}

std::string describe(const Sampling& s) {
  if (s.temperature == 0) return "greedy";
  std::string text = fmt::format("temperature {}", s.temperature);
  if (s.top_p < 1) text += fmt::format(", top_p {}", s.top_p);
  if (s.top_k > 0) text += fmt::format(", top_k {}", s.top_k);
  if (s.min_p > 0) text += fmt::format(", min_p {}", s.min_p);
  return text + fmt::format(", seed {}", s.seed);
}

}  // namespace plumb::app
