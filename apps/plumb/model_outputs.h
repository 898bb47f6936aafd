// Computes what an oracle holds, on an opened engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oracle_file.h"
#include "serve/engine_impl.h"

namespace plumb::app {

// What an oracle's prompt asks for.
struct PromptTask {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::int32_t greedy = 0;  // steps of the greedy continuation
};

// Layers with a router, ascending.
std::vector<std::int32_t> routed_layers(const model::DecoderSpec& spec);
// Experts per token of the layer that takes most; 0 without routers.
std::int32_t most_experts(const model::DecoderSpec& spec);

// Called now and then with the positions computed so far; false stops.
using StepFn = std::function<bool(std::int32_t positions)>;

// Runs the prompt and its greedy continuation, end tokens ignored. The engine must have been opened with trace_routing.
// Errors: those of generate(); cancelled when `on_step` said so.
Result<PromptOutputs> run_prompt(Engine::Impl& engine, const PromptTask& task, const StepFn& on_step);

// Held-out text: mean negative log likelihood over fresh windows. The target of a window's last position is the first token
// of the next window, so every token but the first is a target once.
struct Heldout {
  std::uint64_t tokens = 0;
  std::uint64_t windows = 0;
  std::int32_t window = 0;
  double nats_per_token = 0;
};

// Little-endian 16-bit token ids. Errors: those of opening; malformed when the size is odd.
Result<std::vector<std::int32_t>> read_tokens_u16(const std::string& path);

// Runs floor(tokens / window) windows of `text`. Errors: invalid_argument (the text is too short for one window and its last
// target), those of generate(), cancelled.
Result<Heldout> run_heldout(Engine::Impl& engine, const std::vector<std::int32_t>& text, std::uint64_t tokens, std::int32_t window,
                            const StepFn& on_step);

// XXH3-128 over name, type, shape and bytes of every tensor, in name order: one model in one container, wherever it lies.
std::string model_digest(const format::Checkpoint& checkpoint);

}  // namespace plumb::app
