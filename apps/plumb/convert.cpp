// plumb convert: other checkpoints to GGUF.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/status.h"
#include "checkpoint_output.h"
#include "conversion.h"
#include "device/cpu/host_info.h"
#include "format/checkpoint.h"
#include "verb.h"

namespace plumb::app {
namespace {

struct Options {
  std::string input;
  std::string output;
  std::string matrices;
  std::string tokenizer;
  std::string name;
  int threads = 0;
};

nlohmann::ordered_json document(const Options& o, const Conversion& c, const Written& written) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < c.jobs.size(); ++i) {
    const Origin& origin = c.origins[i];
    tensors.push_back({{"name", c.jobs[i].name}, {"dtype", to_string(c.jobs[i].dtype)}, {"shape", c.jobs[i].shape},
                       {"from", origin.from}, {"from_dtype", to_string(origin.from_dtype)}, {"action", origin.action}});
  }
  return {{"input", o.input}, {"output", o.output}, {"family", c.family}, {"tensors", std::move(tensors)},
          {"tensor_bytes", written.bytes}, {"tokens", c.tokens}, {"digest", written.digest}, {"seconds", written.seconds}};
}

// A number that the chosen type cannot hold.
Status check_refusals(const Conversion& c, const std::string& input) {
  for (std::size_t i = 0; i < c.refusals.size(); ++i) {
    if (c.refusals[i] == nullptr || !c.refusals[i]->load(std::memory_order_relaxed)) continue;
    return fail(ErrorCode::malformed, fmt::format("holds a number that {} cannot", to_string(c.jobs[i].dtype)), input, c.origins[i].from);
  }
  return {};
}

Result<ExitCode> write(const Options& o, Console& console, Conversion& conversion, const std::function<Status()>& source_unchanged) {
  const WriteOptions options{.threads = o.threads > 0 ? o.threads : device::usable_cores(), .quiet = console.quiet};
  const auto verify = [&]() -> Status {
    PLUMB_TRY(source_unchanged());
    return check_refusals(conversion, o.input);
  };
  PLUMB_ASSIGN(const Written written, write_gguf(o.output, conversion.keys, conversion.jobs, options, verify));
  if (console.json) {
    console.print_json(document(o, conversion, written));
    return ExitCode::ok;
  }
  std::map<std::string, int> actions;
  for (const Origin& origin : conversion.origins) ++actions[origin.action];
  std::string done;
  for (const auto& [action, count] : actions) done += fmt::format("{}{} {}", done.empty() ? "" : ", ", count, action);
  console.print(fmt::format("{}: {}, {} tensors ({}), {} tokens, {}; digest {}\n", o.output, conversion.family, conversion.jobs.size(),
                            done, conversion.tokens, bytes_text(written.bytes), written.digest));
  return ExitCode::ok;
}

Result<ExitCode> run(const Options& o, Console& console) {
  ConvertOptions options{.name = o.name};
  if (!o.matrices.empty()) options.matrices = dtype_from_name(o.matrices);  // the name was checked by the parser
  std::error_code code;
  if (std::filesystem::equivalent(o.input, o.output, code)) return usage_error("OUT", "is the input", o.output);
  if (options.name.empty()) options.name = std::filesystem::path(o.input).lexically_normal().stem().string();
  // llama2.c files carry no mark; their tokenizer is always a file of its own, so the option decides.
  if (!o.tokenizer.empty()) {
    if (options.matrices.has_value()) return usage_error("--attn", "a llama2.c model is written in f32", o.matrices);
    PLUMB_ASSIGN(const MappedFile model, MappedFile::open(o.input));
    PLUMB_ASSIGN(const MappedFile tokenizer, MappedFile::open(o.tokenizer));
    PLUMB_ASSIGN(Conversion conversion, convert_llama2c(model.bytes(), o.input, tokenizer.bytes(), o.tokenizer, options));
    return write(o, console, conversion, [&]() -> Status {
      PLUMB_TRY(tokenizer.verify_unchanged());
      return model.verify_unchanged();
    });
  }
  PLUMB_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(o.input));
  checkpoint.advise(MappedFile::Advice::sequential);
  PLUMB_ASSIGN(Conversion conversion, convert_gpt_oss(checkpoint, options));
  return write(o, console, conversion, [&] { return checkpoint.verify_unchanged(); });
}

}  // namespace

Action add_convert(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  command.add_option("IN", o.input, "gpt-oss folder in the Hugging Face layout, or a llama2.c .bin with --tokenizer")->required();
  command.add_option("OUT", o.output, "GGUF file to write")->required();
  command.add_option("--attn", o.matrices, "type of attention matrices, embedding and head (default: as stored)")
      ->check(CLI::IsMember({"q8_0", "q4_0", "bf16", "f16", "f32"}));
  command.add_option("--tokenizer", o.tokenizer, "llama2.c tokenizer file; IN is then a llama2.c model");
  command.add_option("--name", o.name, "name that the file gives the model (default: from IN)");
  command.add_option("--threads", o.threads, "threads; 0: one per usable core")->check(CLI::Range(0, 1024))->capture_default_str();
  return [options](Console& console) { return run(*options, console); };
}

}  // namespace plumb::app
