// plumb convert: other checkpoints to GGUF.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/mapped_file.h"
#include "base/status.h"
#include "checkpoint_output.h"
#include "conversion.h"
#include "conversion_report.h"
#include "device/cpu/host_info.h"
#include "format/checkpoint.h"
#include "format/quantize/quantize.h"
#include "gpt_oss_gguf.h"
#include "kl_report.h"
#include "quantize_plan.h"
#include "verb.h"

namespace plumb::app {
namespace {

// Models up to this size are compared with their source without being asked: it takes seconds.
constexpr std::uint64_t kSmall = std::uint64_t{256} << 20;

struct Options {
  std::string input;
  std::string output;
  std::string matrices;
  std::string tokenizer;
  std::string name;
  int threads = 0;
  std::string quantize;
  std::vector<std::string> tensors;
  std::string kl;  // "auto", "off" or a file
  std::int32_t kl_tokens = 4096;
};

bool quantizes(const Options& o) { return !o.quantize.empty() || !o.tensors.empty(); }

// A number that the chosen type cannot hold.
Status check_refusals(const Conversion& c, const std::string& input) {
  for (std::size_t i = 0; i < c.refusals.size(); ++i) {
    if (c.refusals[i] == nullptr || !c.refusals[i]->load(std::memory_order_relaxed)) continue;
    return fail(ErrorCode::malformed, fmt::format("holds a number that {} cannot", to_string(c.jobs[i].dtype)), input, c.origins[i].from);
  }
  return {};
}

Result<QuantizePlan> plan_of(const Options& o) {
  QuantizePlan plan;
  if (!o.quantize.empty()) plan.matrices = dtype_from_name(o.quantize);  // the name was checked by the parser
  for (const std::string& text : o.tensors) {
    PLUMB_ASSIGN(TensorChoice choice, parse_tensor_choice(text));
    plan.tensors.push_back(std::move(choice));
  }
  return plan;
}

// The comparison with the source, where one is wanted and the source is a model that opens.
Result<std::optional<KlReport>> compare(const Options& o, const Console& console, bool comparable, std::uint64_t source_bytes) {
  if (!quantizes(o) || o.kl == "off" || !comparable) return std::optional<KlReport>();
  if (o.kl == "auto" && source_bytes > kSmall) return std::optional<KlReport>();
  KlOptions options;
  if (o.kl != "auto") options.text = o.kl;
  options.tokens = o.kl_tokens;
  options.engine.threads = o.threads;
  options.quiet = console.quiet;
  PLUMB_ASSIGN(KlReport report, measure_kl(o.input, o.output, options));
  return std::optional<KlReport>(std::move(report));
}

struct Source {
  bool comparable = false;   // a model that the engine opens
  std::uint64_t bytes = 0;
  std::function<Status()> unchanged;
};

Result<ExitCode> write(const Options& o, Console& console, Conversion& conversion, const Source& source) {
  PLUMB_ASSIGN(const QuantizePlan plan, plan_of(o));
  PLUMB_TRY(apply(plan, o.input, conversion));
  const WriteOptions options{.threads = o.threads > 0 ? o.threads : device::usable_cores(), .quiet = console.quiet};
  const auto verify = [&]() -> Status {
    PLUMB_TRY(source.unchanged());
    return check_refusals(conversion, o.input);
  };
  PLUMB_ASSIGN(const Written written, write_gguf(o.output, conversion.keys, conversion.jobs, options, verify));
  PLUMB_ASSIGN(const std::optional<KlReport> kl, compare(o, console, source.comparable, source.bytes));
  const ConversionReport report{.input = o.input, .output = o.output, .conversion = conversion, .written = written, .kl = kl};
  if (console.json) {
    console.print_json(conversion_json(report));
  } else {
    console.print(conversion_text(report));
  }
  return ExitCode::ok;
}

Result<ExitCode> run(const Options& o, Console& console) {
  ConvertOptions options{.name = o.name};
  if (!o.matrices.empty()) options.matrices = dtype_from_name(o.matrices);  // the name was checked by the parser
  if (!o.quantize.empty()) options.file_type = gguf_file_type(*dtype_from_name(o.quantize));
  if (options.matrices.has_value() && quantizes(o)) return usage_error("--attn", "--quantize and --tensor say it all", o.matrices);
  std::error_code code;
  if (std::filesystem::equivalent(o.input, o.output, code)) return usage_error("OUT", "is the input", o.output);
  // llama2.c files carry no mark; their tokenizer is always a file of its own, so the option decides.
  if (!o.tokenizer.empty()) {
    if (options.matrices.has_value()) return usage_error("--attn", "a llama2.c model is written in f32, or with --quantize", o.matrices);
    if (o.kl != "auto" && o.kl != "off") return usage_error("--kl", "a llama2.c model is no model that opens; convert it first", o.kl);
    if (options.name.empty()) options.name = std::filesystem::path(o.input).lexically_normal().stem().string();
    PLUMB_ASSIGN(const MappedFile model, MappedFile::open(o.input));
    PLUMB_ASSIGN(const MappedFile tokenizer, MappedFile::open(o.tokenizer));
    PLUMB_ASSIGN(Conversion conversion, convert_llama2c(model.bytes(), o.input, tokenizer.bytes(), o.tokenizer, options));
    return write(o, console, conversion, {.bytes = model.bytes().size(), .unchanged = [&]() -> Status {
                   PLUMB_TRY(tokenizer.verify_unchanged());
                   return model.verify_unchanged();
                 }});
  }
  PLUMB_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(o.input));
  checkpoint.advise(MappedFile::Advice::sequential);
  const Source source{.comparable = true, .bytes = checkpoint.total_tensor_bytes(), .unchanged = [&] { return checkpoint.verify_unchanged(); }};
  // A GGUF file is only worth writing again when something in it changes.
  if (checkpoint.container() == format::Container::gguf && quantizes(o)) {
    PLUMB_ASSIGN(Conversion conversion, convert_gguf(checkpoint, options));
    return write(o, console, conversion, source);
  }
  if (options.name.empty()) options.name = std::filesystem::path(o.input).lexically_normal().stem().string();
  PLUMB_ASSIGN(Conversion conversion, convert_gpt_oss(checkpoint, options));
  return write(o, console, conversion, source);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const format::quantize::Format& f : format::quantize::formats()) names.emplace_back(to_string(f.type));
  return names;
}

}  // namespace

Action add_convert(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  o.kl = "auto";
  command.add_option("IN", o.input, "gpt-oss folder in the Hugging Face layout, a llama2.c .bin with --tokenizer, or a GGUF to quantise")->required();
  command.add_option("OUT,-o,--output", o.output, "GGUF file to write")->required();
  command.add_option("--quantize", o.quantize, "format of all matrices but routers; vectors stay wide; nvfp4 adds NAME.scale, a factor of each matrix")->check(CLI::IsMember(format_names()));
  command.add_option("--tensor", o.tensors, "PATTERN=FORMAT: another format for matrices of this name (* and ?); the last that matches decides");
  command.add_option("--kl", o.kl, "compare the result with its source on this text (little-endian 16-bit ids); off: do not; auto: on text of "
                                   "the source's own, for models up to 256 MiB")
      ->capture_default_str();
  command.add_option("--kl-tokens", o.kl_tokens, "from the start of that text")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  command.add_option("--attn", o.matrices, "type of attention matrices, embedding and head (default: as stored)")
      ->check(CLI::IsMember({"q8_0", "q4_0", "bf16", "f16", "f32"}));
  command.add_option("--tokenizer", o.tokenizer, "llama2.c tokenizer file; IN is then a llama2.c model");
  command.add_option("--name", o.name, "name that the file gives the model (default: from IN)");
  command.add_option("--threads", o.threads, "threads; 0: one per usable core")->check(CLI::Range(0, 1024))->capture_default_str();
  return [options](Console& console) { return run(*options, console); };
}

}  // namespace plumb::app
