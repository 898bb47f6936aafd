// The table of verbs. A verb is one file and one line here.
#pragma once

#include <functional>
#include <span>

#include "console.h"
#include "exit_code.h"
#include "plumb/status.h"

namespace CLI {
class App;
}

namespace plumb::app {

// What a verb does once its arguments are parsed. It prints through the console; an error is printed by main.
using Action = std::function<Result<ExitCode>(Console&)>;

struct Verb {
  const char* name;
  const char* help;          // one line
  Action (*add)(CLI::App&);  // adds the verb's options to its subcommand, and returns what runs if the verb is chosen
};

// In the order that --help shows.
std::span<const Verb> verb_table();

Action add_run(CLI::App& command);
Action add_chat(CLI::App& command);
Action add_batch(CLI::App& command);
Action add_bench(CLI::App& command);
Action add_contract(CLI::App& command);
Action add_verify(CLI::App& command);
Action add_inspect(CLI::App& command);
Action add_convert(CLI::App& command);
Action add_synth(CLI::App& command);
Action add_devices(CLI::App& command);
Action add_version(CLI::App& command);

// An option's value that cannot be used; main answers with ExitCode::usage. `option` as typed: "--hidden".
Error usage_error(std::string option, std::string message, std::string value = {});
// True for what usage_error makes.
bool is_usage_error(const Error& error);

}  // namespace plumb::app
