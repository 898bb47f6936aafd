// plumb chat: a conversation in the harmony format.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "engine_options.h"
#include "interrupt.h"
#include "line_reader.h"
#include "serve/engine_impl.h"
#include "text/harmony.h"
#include "text/harmony_parser.h"
#include "verb.h"

namespace plumb::app {
namespace {

struct Options {
  std::string model;
  EngineOptions engine;
  SamplingOptions sampling;
  std::int32_t max_tokens = 1024;
  std::string instructions;
  std::string effort = "medium";
  bool no_system = false;
};

constexpr const char* kHelp =
    "/help          this list\n"
    "/reset         forget the conversation\n"
    "/system TEXT   new instructions, and forget the conversation; without TEXT: no instructions\n"
    "/quit          end (Ctrl-D does too)\n"
    "Ctrl-C stops an answer, or drops the line being typed.\n";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// $XDG_STATE_HOME/plumb/chat_history, or under ~/.local/state (XDG base directory specification); empty without a home.
std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/plumb/chat_history";
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/state/plumb/chat_history";
  return {};
}

class Chat {
 public:
  Chat(const Options& options, Console& console, Engine engine, text::HarmonyTokens tokens, Sampling sampling)
      : options_(options), console_(console), engine_(std::move(engine)), tokens_(tokens), sampling_(sampling),
        dim_(::isatty(STDOUT_FILENO) == 1 && !console.json) {
    instruct(options.instructions);
  }

  Result<ExitCode> run() {
    LineReader lines("> ", history_file(), [this] { return guard_.interrupted(); });
    terminal_ = lines.terminal();
    if (terminal_ && !console_.json) {
      console_.print(fmt::format("{} ({}); /help lists commands\n", options_.model, describe(sampling_)));
      std::fflush(stdout);
    }
    std::string line;
    for (;;) {
      guard_.clear();
      const auto outcome = lines.read(line);
      if (outcome == LineReader::Outcome::interrupted) continue;
      if (outcome == LineReader::Outcome::end) break;
      if (guard_.interrupted() && !terminal_) return ExitCode::interrupted;
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (line.front() == '/') {
        if (!command(line)) break;
        continue;
      }
      PLUMB_TRY(answer(line));
      if (stopped_ && !terminal_) return ExitCode::interrupted;  // a script's Ctrl-C means the script
    }
    if (console_.json) console_.print_json({{"model", options_.model}, {"messages", document_}});
    if (terminal_ && !console_.json) console_.print("\n");
    return ExitCode::ok;
  }

 private:
  void instruct(const std::string& text) {
    conversation_ = {};
    if (!options_.no_system) {
      conversation_.system = text::SystemMessage{};
      conversation_.system->current_date = today();
      conversation_.system->effort = *text::reasoning_effort_from(options_.effort);
    }
    if (!text.empty()) conversation_.developer = text::DeveloperMessage{.instructions = text};
  }

  void say(const std::string& text) {
    if (!console_.json) console_.print(text);
    std::fflush(stdout);
  }

  // Returns false to end.
  bool command(const std::string& line) {
    const auto space = line.find(' ');
    const std::string word = line.substr(0, space);
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/help") {
      say(kHelp);
    } else if (word == "/reset") {
      conversation_.messages.clear();
      say("the conversation is forgotten\n");
    } else if (word == "/system") {
      instruct(space == std::string::npos ? "" : line.substr(space + 1));
      say("new instructions; the conversation is forgotten\n");
    } else {
      say("no such command; /help lists them\n");
    }
    return true;
  }

  // The answer's text as it comes. The final channel, and a message without one, is the answer; the rest is reasoning: dim on
  // a terminal, and on standard error where the answer goes to a file.
  void show(const text::HarmonyEvent& event) {
    if (const auto* started = std::get_if<text::MessageStarted>(&event)) {
      current_ = started->header;
    } else if (const auto* delta = std::get_if<text::TextDelta>(&event)) {
      current_.content += delta->text;
      if (console_.json) return;
      if (is_answer(current_)) {
        say(delta->text);
      } else if (dim_) {
        say("\x1b[2m" + delta->text + "\x1b[22m");
      } else {
        std::fputs(delta->text.c_str(), stderr);
      }
    } else {
      if (is_answer(current_) || dim_) {
        say(current_.content.ends_with('\n') ? "" : "\n");
      } else if (!console_.json) {
        std::fputs("\n", stderr);
      }
      if (is_answer(current_)) answered_ = true;
      conversation_.messages.push_back(current_);
      record(current_);
      if (!current_.recipient.empty()) say("(the model calls " + current_.recipient + ", and there are no tools here)\n");
    }
  }

  static bool is_answer(const text::Message& m) { return m.channel == "final" || (m.channel.empty() && m.recipient.empty()); }

  void record(const text::Message& m) {
    nlohmann::ordered_json one = {{"role", text::to_string(m.role)}, {"content", m.content}};
    if (!m.channel.empty()) one["channel"] = m.channel;
    if (!m.recipient.empty()) one["recipient"] = m.recipient;
    document_.push_back(std::move(one));
  }

  Status answer(const std::string& line) {
    conversation_.messages.push_back({.role = text::Role::user, .content = line});
    const std::size_t before = conversation_.messages.size();
    auto ids = text::render_ids(engine_.impl().tokenizer(), tokens_, conversation_);
    if (!ids.ok()) return ids.error();
    if (static_cast<std::int64_t>(ids->size()) > engine_.info().context) {
      conversation_.messages.pop_back();
      say(fmt::format("the conversation has {} tokens and the context {}: /reset, or start with a larger --ctx\n", ids->size(), engine_.info().context));
      return {};
    }
    record(conversation_.messages.back());
    Request request{.prompt_ids = std::move(*ids), .max_tokens = options_.max_tokens, .sampling = sampling_, .stop_ids = tokens_.stops(),
                    .ignore_eos = true};
    // The next turn drops this one's reasoning: it branches at a message.
    request.branch_points = text::message_starts(request.prompt_ids, tokens_);
    text::HarmonyParser parser(engine_.impl().tokenizer(), tokens_);
    std::vector<text::HarmonyEvent> events;
    const auto drain = [&] {
      for (const auto& event : events) show(event);
      events.clear();
    };
    answered_ = false;
    const auto on_event = [&](const Event& event) {
      if (event.kind == EventKind::token) {
        parser.feed(event.token, events);
        drain();
      }
      return !guard_.interrupted() && !answered_;
    };
    auto end = engine_.generate(request, on_event);
    parser.finish(events);
    drain();
    stopped_ = guard_.interrupted();
    if (!end.ok()) {
      conversation_.messages.resize(before - 1);
      if (end.error().code == ErrorCode::device_fault) {  // the engine can be used again
        console_.report(end.error());
        return {};
      }
      return end.error();
    }
    if (stopped_) {
      say("(stopped)\n");
    } else if (end->finish == Finish::length) {
      say(fmt::format("(cut at {} tokens; -n sets the limit)\n", options_.max_tokens));
    } else if (end->finish == Finish::context) {
      say("(the context is full: /reset)\n");
    }
    ++sampling_.seed;  // the next turn draws other numbers, and the same conversation still gives the same text
    return {};
  }

  const Options& options_;
  Console& console_;
  Engine engine_;
  text::HarmonyTokens tokens_;
  Sampling sampling_;
  bool dim_;
  bool terminal_ = false;
  bool answered_ = false;
  bool stopped_ = false;
  InterruptGuard guard_;
  text::Conversation conversation_;
  text::Message current_;
  nlohmann::ordered_json document_ = nlohmann::ordered_json::array();
};

Result<ExitCode> chat(const Options& o, Console& console) {
  PLUMB_ASSIGN(Engine engine, Engine::open(o.model, o.engine));
  const auto tokens = text::HarmonyTokens::find(engine.impl().tokenizer());
  if (!tokens.ok()) {
    return fail(ErrorCode::unsupported, "the vocabulary has no harmony tokens, so this model knows no turns; plumb run continues text with it",
                o.model, tokens.error().field, tokens.error().value);
  }
  PLUMB_ASSIGN(const Sampling sampling, sampling_for(o.sampling, engine));
  return Chat(o, console, std::move(engine), *tokens, sampling).run();
}

}  // namespace

Action add_chat(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  add_engine_options(command, o->model, o->engine);
  command.add_option("--system", o->instructions, "instructions, as the developer message");
  command.add_flag("--no-system", o->no_system, "leave out the standard system message");
  command.add_option("--reasoning", o->effort, "how much to think")->check(CLI::IsMember({"low", "medium", "high"}))->capture_default_str();
  command.add_option("-n,--tokens", o->max_tokens, "tokens of one answer at most")->check(CLI::PositiveNumber)->capture_default_str();
  add_sampling_options(command, o->sampling);
  return [o](Console& console) { return chat(*o, console); };
}

}  // namespace plumb::app
