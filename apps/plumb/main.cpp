// plumb VERB [options]: parses arguments, runs one verb, turns its result into an exit status.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <string_view>
#include <vector>

#include "base/build_info.h"
#include "base/printable.h"
#include "base/status.h"
#include "verb.h"

namespace plumb::app {
namespace {

constexpr const char* kFooter =
    "\nExit status: 0 done, 1 it could not be done, 2 bad usage, 3 a verification failed, 130 stopped by Ctrl-C.\n"
    "Every verb takes --json (one document on standard output, documented in docs/CLI.md) and --help.";

// What CLI11 found wrong, as one line.
Error parse_error(const CLI::ParseError& error, const CLI::App& app) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::string help = "plumb --help";
  for (const CLI::App* chosen : app.get_subcommands()) help = "plumb " + chosen->get_name() + " --help";
  return usage_error({}, printable(message, 512) + " (see " + help + ")");
}

bool is_verb(std::string_view word) {
  return std::ranges::any_of(verb_table(), [&](const Verb& verb) { return word == verb.name; });
}

// A first word that is no verb would otherwise be reported as an unexpected argument.
Status check_first_word(int argc, char** argv) {
  std::string names;
  for (const Verb& verb : verb_table()) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  if (argc < 2) return usage_error({}, "no verb given; the verbs are " + names + " (see plumb --help)");
  const std::string_view word = argv[1];
  if (word.starts_with("-") || is_verb(word)) return {};
  return usage_error({}, "no such verb; the verbs are " + names + " (see plumb --help)", printable(word));
}

ExitCode exit_code_of(const Error& error) {
  if (is_usage_error(error)) return ExitCode::usage;
  if (error.code == ErrorCode::cancelled) return ExitCode::interrupted;
  return ExitCode::failure;
}

ExitCode fail_with(Console& console, const Error& error) {
  console.report(error);
  return exit_code_of(error);
}

ExitCode run(int argc, char** argv, Console& console) {
  CLI::App app("plumb: an LLM inference engine that proves what it claims", "plumb");
  app.footer(kFooter);
  app.get_formatter()->column_width(40);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  const BuildInfo& build = build_info();
  app.set_version_flag("--version", fmt::format("plumb {} ({}, {}; {})", build.version, build.commit, build.build_type, build.flags),
                       "print version, commit and build flags");
  app.require_subcommand(1);

  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& verb : verb_table()) {
    CLI::App* command = app.add_subcommand(verb.name, verb.help);
    command->group("Verbs");
    actions.emplace_back(command, verb.add(*command));
    command->add_flag("--json", console.json, "print one JSON document instead of text");
    command->add_flag("-q,--quiet", console.quiet, "print no progress");
  }

  if (const Status first = check_first_word(argc, argv); !first.ok()) return fail_with(console, first.error());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help or --version
    console.print(wanted.get_name() == "CallForVersion" ? std::string(wanted.what()) + "\n" : app.help());
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    return fail_with(console, parse_error(error, app));
  }
  for (const auto& [command, action] : actions) {
    if (!command->parsed()) continue;
    auto result = action(console);
    return result.ok() ? result.value() : fail_with(console, result.error());
  }
  return ExitCode::usage;
}

// Arguments that cannot be parsed are still reported in the form that was asked for.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
}

}  // namespace
}  // namespace plumb::app

int main(int argc, char** argv) {
  using plumb::app::ExitCode;
  plumb::app::Console console;
  console.json = plumb::app::wants_json(argc, argv);
  ExitCode code = ExitCode::failure;
  try {
    code = plumb::app::run(argc, argv, console);
  } catch (const std::bad_alloc&) {
    console.report(plumb::fail(plumb::ErrorCode::out_of_memory, "memory ran out"));
  } catch (const std::exception& error) {  // threads that cannot be started
    console.report(plumb::fail(plumb::ErrorCode::internal, error.what()));
  }
  if (const auto written = console.finish(); !written.ok()) {
    console.json = false;
    console.report(written.error());
    if (code == ExitCode::ok) code = ExitCode::failure;
  }
  return static_cast<int>(code);
}
