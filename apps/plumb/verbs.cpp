#include "base/status.h"
#include "verb.h"

namespace plumb::app {
namespace {

constexpr Verb kVerbs[] = {
    {"run", "continue a prompt", &add_run},
    {"chat", "talk with a model", &add_chat},
    {"batch", "run a file of requests side by side", &add_batch},
    {"bench", "measure prefill and decode speed at depths", &add_bench},
    {"verify", "compare a model with its oracle", &add_verify},
    {"contract", "print the step contract; hold an engine to it; try to break it", &add_contract},
    {"inspect", "say what a model file is: layers, tensors, memory, bytes read per token", &add_inspect},
    {"convert", "convert a checkpoint to GGUF", &add_convert},
    {"synth", "write a random-weight checkpoint of any geometry", &add_synth},
    {"devices", "list the devices that can compute", &add_devices},
    {"version", "say what this build is", &add_version},
};

}  // namespace

std::span<const Verb> verb_table() { return kVerbs; }

Error usage_error(std::string option, std::string message, std::string value) {
  return fail(ErrorCode::invalid_argument, std::move(message), "arguments", std::move(option), std::move(value));
}

bool is_usage_error(const Error& error) { return error.code == ErrorCode::invalid_argument && error.subject == "arguments"; }

}  // namespace plumb::app
