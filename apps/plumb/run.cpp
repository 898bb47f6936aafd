// plumb run: one prompt, its continuation.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.h"
#include "engine_options.h"
#include "interrupt.h"
#include "route_report.h"
#include "serve/engine_impl.h"
#include "verb.h"

namespace plumb::app {
namespace {

struct Options {
  std::string model;
  EngineOptions engine;
  SamplingOptions sampling;
  std::string prompt;
  std::string file;
  std::vector<std::int32_t> ids;
  bool special = false;
  std::int32_t max_tokens = 256;
  std::vector<std::string> stop;
  std::vector<std::string> choices;
  bool ignore_eos = false;
  bool witness = false;
};

Result<std::string> read_prompt(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::not_found, "cannot be read", path, "-f");
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail(ErrorCode::io, "cannot be read to its end", path, "-f");
  return text;
}

struct Speed {
  double open_ms, prefill, decode;
};

Speed speed_of(const Usage& usage, double open_ms) {
  return {open_ms, per_second(usage.prompt_tokens, usage.prompt_ms), decode_rate(usage)};
}

nlohmann::ordered_json document(const Options& o, const Engine& engine, const Sampling& sampling, const std::vector<std::int32_t>& prompt_ids,
                                const Answer& answer, double open_ms) {
  const Usage& usage = answer.end.usage;
  const Speed speed = speed_of(usage, open_ms);
  nlohmann::ordered_json out = {
      {"model", o.model},
      {"prompt_ids", prompt_ids},
      {"ids", answer.ids},
      {"text", answer.text},
      {"finish", to_string(answer.end.finish)},
      {"sampling",
       {{"temperature", sampling.temperature}, {"top_p", sampling.top_p}, {"top_k", sampling.top_k}, {"min_p", sampling.min_p}, {"seed", sampling.seed}}},
      {"fingerprint", {{"tokens", answer.token_fingerprint()}, {"logits", answer.logit_fingerprint()}}},
      {"timing",
       {{"open_ms", open_ms},
        {"prompt_tokens", usage.prompt_tokens},
        {"tokens", usage.completion_tokens},
        {"prefill_ms", usage.prompt_ms},
        {"decode_ms", usage.completion_ms},
        {"prefill_tokens_per_s", speed.prefill},
        {"decode_tokens_per_s", speed.decode},
        {"threads", engine.impl().queue().info().threads},
        {"host_waits", answer.host_waits}}}};
  if (o.witness) out["route"] = route_json(route_rows(engine.impl().executor()));
  return out;
}

Result<ExitCode> run(const Options& o, Console& console) {
  if (o.prompt.empty() && o.file.empty() && o.ids.empty()) return usage_error("-p", "one of -p, -f and --ids is needed");
  const InterruptGuard guard;
  const auto begin = std::chrono::steady_clock::now();
  PLUMB_ASSIGN(Engine engine, Engine::open(o.model, o.engine));
  const double open_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();

  Request request;
  request.prompt_ids = o.ids;
  if (o.ids.empty()) {
    std::string text = o.prompt;
    if (!o.file.empty()) {
      PLUMB_ASSIGN(text, read_prompt(o.file));
    }
    PLUMB_ASSIGN(request.prompt_ids, engine.encode(text, o.special));
  }
  request.max_tokens = o.max_tokens;
  request.stop = o.stop;
  request.ignore_eos = o.ignore_eos;
  if (!o.choices.empty()) request.choices = o.choices;
  PLUMB_ASSIGN(request.sampling, sampling_for(o.sampling, engine));

  Answer answer;
  const auto on_event = [&](const Event& event) {
    answer.take(Event(event));
    if (!console.json && !event.text.empty()) {
      console.print(event.text);
      std::fflush(stdout);
    }
    return !guard.interrupted();
  };
  const std::uint64_t waits = engine.impl().queue().counters().host_waits;
  PLUMB_TRY(engine.generate(request, on_event));
  answer.host_waits = engine.impl().queue().counters().host_waits - waits;
  if (o.engine.checked) PLUMB_TRY(engine.impl().executor().verify());

  if (console.json) {
    console.print_json(document(o, engine, request.sampling, request.prompt_ids, answer, open_ms));
  } else {
    if (!answer.text.ends_with('\n')) console.print("\n");
    std::fflush(stdout);
    const Usage& usage = answer.end.usage;
    const Speed speed = speed_of(usage, open_ms);
    if (!console.quiet) {
      fmt::print(stderr, "\n{} prompt tokens at {:.0f} tokens/s, {} tokens at {:.0f} tokens/s; finish: {}; {}; opened in {:.0f} ms\n",
                 usage.prompt_tokens, speed.prefill, usage.completion_tokens, speed.decode, to_string(answer.end.finish),
                 describe(request.sampling), open_ms);
    }
    if (o.witness) fmt::print(stderr, "\n{}", route_text(route_rows(engine.impl().executor())));
  }
  return answer.end.finish == Finish::cancelled ? ExitCode::interrupted : ExitCode::ok;
}

}  // namespace

Action add_run(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  add_engine_options(command, o->model, o->engine);
  CLI::Option_group* prompt = command.add_option_group("Prompt", "exactly one");
  prompt->add_option("-p,--prompt", o->prompt, "text");
  prompt->add_option("-f,--file", o->file, "text from a file; - reads standard input");
  prompt->add_option("--ids", o->ids, "token ids, as 1,2,3")->delimiter(',')->allow_extra_args(false);
  prompt->require_option(0, 1);
  command.add_flag("--special", o->special, "text such as <|start|> in the prompt becomes the special token");
  command.add_option("-n,--tokens", o->max_tokens, "tokens to generate at most")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_option("--stop", o->stop, "end before this text would appear; may be given more than once")->allow_extra_args(false);
  command.add_option("--choices", o->choices, "texts, as yes,no: the answer is exactly one of them; may be given more than once")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", o->ignore_eos, "do not end at the model's end tokens");
  command.add_flag("--witness", o->witness, "say which kernels ran, for how many positions x layers");
  add_sampling_options(command, o->sampling);
  return [o](Console& console) { return run(*o, console); };
}

}  // namespace plumb::app
