// What the program's exit status says. docs/CLI.md lists the same numbers; a test compares the two.
#pragma once

namespace plumb::app {

enum class ExitCode : int {
  ok = 0,
  failure = 1,       // what was asked could not be done: a file, a device, a full disk
  usage = 2,         // what was asked makes no sense: unknown verb or option, a value out of range
  verdict = 3,       // it was done, and the answer is no: a verification that FAILs
  interrupted = 130, // Ctrl-C (128 + SIGINT)
};

}  // namespace plumb::app
