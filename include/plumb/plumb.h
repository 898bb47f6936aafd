// Plumb as a library: open a model, submit requests, read events.
//
//   auto engine = plumb::Engine::open("models/story");
//   if (!engine) { std::puts(engine.error().to_string().c_str()); return 1; }
//   plumb::Request request;
//   request.prompt = "Once upon a time";
//   auto done = engine->generate(request, [](const plumb::Event& e) { std::fputs(e.text.c_str(), stdout); return true; });
//
// Requests and events are plain values: they can be written to a file or sent to another process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/status.h"

namespace plumb {

using RequestId = std::uint64_t;

// How a token is drawn. The defaults are greedy: the same prompt gives the same text.
// Sampling is a pure function of (logits, seed, choice, position), so it does not depend on what else is running.
struct Sampling {
  float temperature = 0;            // 0: greedy, no random number is drawn; otherwise > 0
  float top_p = 1;                  // (0, 1]
  float min_p = 0;                  // [0, 1)
  std::int32_t top_k = 0;           // 0: off
  std::uint64_t seed = 0;
  std::int32_t choice = 0;          // which of several answers to one prompt
  float presence_penalty = 0;       // [-2, 2], subtracted once from every token already generated
  float frequency_penalty = 0;      // [-2, 2], subtracted per occurrence
  bool operator==(const Sampling&) const = default;
};

struct Request {
  std::string prompt;                        // text; used when prompt_ids is empty
  std::vector<std::int32_t> prompt_ids;      // token ids, taken as they are
  bool parse_special = false;                // text such as <|start|> becomes the special token
  bool add_bos = true;                       // when the tokenizer says that prompts begin with one
  std::int32_t max_tokens = 256;             // >= 0; 0 computes the prompt only
  Sampling sampling;
  std::vector<std::string> stop;             // generation ends before the first of these would appear in the text
  std::vector<std::int32_t> stop_ids;        // besides the model's own end tokens
  bool ignore_eos = false;
  std::int32_t priority = 0;                 // higher runs first
  std::int64_t deadline_ms = 0;              // from submission; 0: none
  std::string cache_namespace;               // prefixes are shared within a namespace only
  std::vector<std::int32_t> logit_positions; // prompt positions whose logits are delivered (EventKind::logits), ascending
  bool token_logits = false;                 // deliver the logits of every generated token with it
};

enum class EventKind : std::uint8_t {
  started,   // admitted: prompt_tokens and cached_tokens are known
  logits,    // logits of prompt position `position`
  token,     // one generated token; `text` is what became printable with it (may be empty)
  finished,  // the terminal event, exactly once; `finish`, `usage` and on failure `error` are set
};

enum class Finish : std::uint8_t {
  none,
  stop_token,   // the model ended the text
  stop_string,
  length,       // max_tokens reached
  context,      // the context is full
  cancelled,
  deadline,
  error,
};
std::string_view to_string(Finish finish);

struct Usage {
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;           // of the prompt, taken from the prefix tree
  std::int32_t expected_cached_tokens = 0;  // what the tree should have held; equal unless something was evicted
  std::int32_t completion_tokens = 0;
  double queue_ms = 0;                      // submission to admission
  double first_token_ms = 0;                // submission to first token
  double total_ms = 0;
};

struct Event {
  RequestId request = 0;
  EventKind kind = EventKind::token;
  std::int32_t token = -1;
  std::int32_t position = -1;     // absolute position of the token, or of the logits
  std::string text;
  std::vector<float> logits;      // [vocab], only where asked for
  std::uint64_t logit_digest = 0; // digest of the logits the token was drawn from, bit for bit
  Finish finish = Finish::none;
  Usage usage;
  std::optional<Error> error;
};

struct EngineOptions {
  std::string device = "auto";       // "auto", "cpu"
  int threads = 0;                   // CPU workers; 0: one per core this process may use
  std::string isa;                   // CPU kernels from this instruction set at most; empty: the best there is
  std::int32_t context = 0;          // positions a request may reach; 0: the model's own, at most 32,768
  std::int32_t max_sequences = 16;   // requests computed at once; more wait in the queue
  std::int32_t chunk_rows = 256;     // most prompt rows of one step
  std::int64_t kv_positions = 0;     // full-attention positions in the pool over all requests; 0: enough for max_sequences
  std::string loop = "standard";     // a row of the loop table: "standard", "chained", "chained:4"
  bool prefix_cache = true;
  bool checked = false;              // guard bands, poison and bounds counted on every buffer
  bool diag = false;                 // run op by op with a status check after each
};

// What was opened, for reports.
struct ModelInfo {
  std::string path;
  std::string family;
  std::string container;             // "safetensors", "gguf"
  std::string digest;                // of the weights' bytes, hexadecimal; empty until asked for
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;
  std::int32_t layers = 0;
  std::int32_t max_positions = 0;
  std::vector<std::int32_t> eos_ids;
  std::int32_t bos_id = -1;          // -1: none
};

// Return false to cancel the request.
using EventFn = std::function<bool(const Event&)>;

// An opened model with its scheduler. Thread rule: every member may be called from any thread.
class Engine {
 public:
  // `model`: a directory in Hugging Face layout, a .safetensors or a .gguf file.
  // Errors: everything a file can do wrong (see ErrorCode), out_of_memory with the arithmetic.
  static Result<Engine> open(const std::string& model, const EngineOptions& options = {});

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();  // cancels what is running and waits for the device

  const ModelInfo& info() const;

  // Text to ids and back. Errors: invalid_argument, limit_exceeded.
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool parse_special = false, bool add_bos = false) const;
  std::string decode(const std::vector<std::int32_t>& ids) const;
  // The id of a special token by its text, or -1.
  std::int32_t special_id(std::string_view text) const;

  // Queues a request. Its events are delivered to `on_event` on the engine's thread, in order, the terminal one last and
  // exactly once. The callback must not block for long: other requests wait for it.
  // Errors: invalid_argument naming the field (empty prompt, ids outside the vocabulary, a prompt longer than the context).
  Result<RequestId> submit(const Request& request, EventFn on_event);
  // Asks a request to stop; its terminal event follows. Unknown and finished ids are ignored.
  void cancel(RequestId id);

  // submit(), then waits for the terminal event and returns it. Events are delivered on the calling thread.
  // A request that ends with an error returns that error.
  Result<Event> generate(const Request& request, const EventFn& on_event = {});

  // Waits until no request is queued or running.
  void drain();

  class Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
