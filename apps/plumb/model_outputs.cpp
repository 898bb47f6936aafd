#include "model_outputs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "interrupt.h"
#include "measure/parity.h"

namespace plumb::app {

std::vector<std::int32_t> routed_layers(const model::DecoderSpec& spec) {
  std::vector<std::int32_t> layers;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (std::holds_alternative<model::MoeSpec>(spec.layers[i].ffn)) layers.push_back(static_cast<std::int32_t>(i));
  }
  return layers;
}

std::int32_t most_experts(const model::DecoderSpec& spec) {
  std::int32_t most = 0;
  for (const model::LayerSpec& layer : spec.layers) {
    if (const auto* moe = std::get_if<model::MoeSpec>(&layer.ffn)) most = std::max(most, moe->top_k);
  }
  return most;
}

Result<PromptOutputs> run_prompt(Engine::Impl& engine, const PromptTask& task, const StepFn& on_step) {
  const std::vector<std::int32_t> layers = routed_layers(engine.spec());
  PromptOutputs out;
  out.ids = task.ids;
  out.positions = task.positions;
  out.routed_layers = static_cast<std::int32_t>(layers.size());
  out.top_k = most_experts(engine.spec());
  const auto prompt = static_cast<std::int32_t>(task.ids.size());
  out.routes.assign(task.ids.size() * layers.size() * static_cast<std::size_t>(out.top_k), -1);
  out.route_margin.assign(task.ids.size() * layers.size(), 0);

  const Request request{.prompt_ids = task.ids, .max_tokens = task.greedy, .ignore_eos = true, .logit_positions = task.positions,
                        .token_logits = true};
  const auto on_event = [&](const Event& event) {
    if (event.kind == EventKind::logits) out.logits.insert(out.logits.end(), event.logits.begin(), event.logits.end());
    if (event.kind == EventKind::token) {
      out.greedy.push_back(event.token);
      out.margin.push_back(static_cast<float>(measure::top_margin(event.logits)));
    }
    return on_step(event.position);
  };
  const auto on_route = [&](const RoutedPosition& route) {
    if (route.position >= prompt) return;  // an oracle keeps the prompt's routes: greedy text may part at a tie
    const auto layer = static_cast<std::size_t>(std::lower_bound(layers.begin(), layers.end(), route.layer) - layers.begin());
    const std::size_t cell = static_cast<std::size_t>(route.position) * layers.size() + layer;
    out.route_margin[cell] = route.margin;
    std::copy(route.experts.begin(), route.experts.end(), out.routes.begin() + static_cast<std::ptrdiff_t>(cell) * out.top_k);
  };
  PLUMB_ASSIGN(const Event end, engine.generate(request, on_event, layers.empty() ? Engine::Impl::RouteFn{} : on_route));
  if (end.finish == Finish::cancelled) return interrupted_error();
  PLUMB_CHECK(end.finish == Finish::length);
  return out;
}

Result<std::vector<std::int32_t>> read_tokens_u16(const std::string& path) {
  PLUMB_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() % 2 != 0) return fail(ErrorCode::malformed, "must hold 16-bit token ids", path, "size", std::to_string(bytes.size()));
  std::vector<std::int32_t> ids(bytes.size() / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = std::to_integer<std::int32_t>(bytes[2 * i]) | std::to_integer<std::int32_t>(bytes[2 * i + 1]) << 8;
  }
  PLUMB_TRY(file.check());
  return ids;
}

Result<Heldout> run_heldout(Engine::Impl& engine, const std::vector<std::int32_t>& text, std::uint64_t tokens, std::int32_t window,
                            const StepFn& on_step) {
  const auto w = static_cast<std::uint64_t>(window);
  Heldout out{.window = window};
  out.windows = text.empty() ? 0 : std::min<std::uint64_t>(tokens, text.size() - 1) / w;
  if (out.windows == 0) {
    return fail(ErrorCode::invalid_argument, "must hold one window of " + std::to_string(window) + " tokens and the token after it",
                "held-out text", "tokens", std::to_string(std::min<std::uint64_t>(tokens, text.size())));
  }
  out.tokens = out.windows * w;
  Request request{.max_tokens = 0};
  for (std::int32_t p = 0; p < window; ++p) request.logit_positions.push_back(p);
  double sum = 0;
  for (std::uint64_t j = 0; j < out.windows; ++j) {
    const auto* first = text.data() + j * w;
    request.prompt_ids.assign(first, first + window);
    for (const std::int32_t target : std::span(first + 1, w)) {
      if (target < 0 || target >= engine.spec().vocab) {
        return fail(ErrorCode::malformed, "must be below the vocabulary of " + std::to_string(engine.spec().vocab), "held-out text", "token",
                    std::to_string(target));
      }
    }
    const auto on_event = [&](const Event& event) {
      if (event.kind == EventKind::logits) {
        sum += measure::negative_log_likelihood(event.logits, static_cast<std::size_t>(first[event.position + 1]));
      }
      return event.kind == EventKind::finished || on_step(static_cast<std::int32_t>(j * w) + event.position);
    };
    PLUMB_ASSIGN(const Event end, engine.generate(request, on_event));
    if (end.finish == Finish::cancelled) return interrupted_error();
  }
  out.nats_per_token = sum / static_cast<double>(out.tokens);
  return out;
}

std::string model_digest(const format::Checkpoint& checkpoint) {
  std::vector<const format::TensorView*> tensors;
  for (const format::TensorView& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Hasher hasher;
  for (const format::TensorView* tensor : tensors) {
    hasher.update(tensor->name + "\n" + std::string(to_string(tensor->dtype)) + "\n" + format::shape_text(tensor->shape) + "\n");
    hasher.update(tensor->data);
  }
  return hasher.digest().hex();
}

}  // namespace plumb::app
