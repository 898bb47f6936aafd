// Plumb as a library: open a model, run requests, read events.
//
//   auto engine = plumb::Engine::open("models/story");
//   if (!engine) { std::puts(engine.error().to_string().c_str()); return 1; }
//   plumb::Request request;
//   request.prompt = "Once upon a time";
//   auto done = engine->generate(request, [](const plumb::Event& e) { std::fputs(e.text.c_str(), stdout); return true; });
//
// Requests and events are plain values: they can be written to a file or sent to another process (plumb/wire.h).
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

// How a token is drawn. The defaults are greedy: the same prompt gives the same text.
// Sampling is a pure function of (logits, seed, choice, position), so it does not depend on what else is running.
struct Sampling {
  float temperature = 0;    // 0: greedy, no random number is drawn; otherwise > 0
  float top_p = 1;          // (0, 1]
  float min_p = 0;          // [0, 1)
  std::int32_t top_k = 0;   // 0: off
  std::uint64_t seed = 0;
  std::int32_t choice = 0;  // which of several answers to one prompt
  // Changes of logits before the draw, over the tokens of the answer so far (count n > 0): the logit is divided by
  // repetition_penalty when positive and multiplied otherwise (arXiv 1909.05858), then lowered by n * frequency_penalty +
  // presence_penalty. They apply to greedy draws too.
  float repetition_penalty = 1;  // > 0
  float frequency_penalty = 0;   // [-2, 2]
  float presence_penalty = 0;    // [-2, 2]
  bool operator==(const Sampling&) const = default;
};

// Added to the logit of one token before every draw; finite, from -1e6 to 1e6. -1e6 bans a token in practice.
struct LogitBias {
  std::int32_t token = 0;
  float bias = 0;
  bool operator==(const LogitBias&) const = default;
};

struct Request {
  std::string prompt;                         // text; used when prompt_ids is empty
  std::vector<std::int32_t> prompt_ids;       // token ids, taken as they are
  bool parse_special = false;                 // text such as <|start|> becomes the special token
  std::int32_t max_tokens = 256;              // >= 0; 0 computes the prompt only
  Sampling sampling;
  std::vector<std::string> stop;              // generation ends before the first of these would appear in the text
  std::vector<std::int32_t> stop_ids;         // besides the model's own end tokens
  bool ignore_eos = false;
  std::vector<LogitBias> logit_bias;          // at most 1,024
  // The answer is exactly one of these texts, byte for byte, in whatever tokens; the model chooses. Ends with Finish::complete, or
  // with the model's end token where one choice begins another (ignore_eos has no say in that). At most 1,024 texts of 1,024 bytes,
  // 32,768 together. Not together with stop or stop_ids, which could cut a choice short.
  std::optional<std::vector<std::string>> choices;
  std::int32_t priority = 0;                  // higher is admitted first; among equals, who came first
  double deadline_ms = 0;                     // from submission to the terminal event; 0: none
  // Prompt positions at which the conversation is likely to branch later (message boundaries): the windows there are kept
  // longest. The prompt's end and the answer's end always are.
  std::vector<std::int32_t> branch_points;
  // Prompt positions whose logits are delivered (EventKind::logits), ascending. The prompt is computed at least from the
  // first of them, whatever the prefix tree holds.
  std::vector<std::int32_t> logit_positions;
  bool token_logits = false;                  // deliver the logits of every generated token with it
  bool operator==(const Request&) const = default;
};

enum class EventKind : std::uint8_t {
  progress,  // prompt positions below `position` are computed; between the chunks of a long prompt
  logits,    // logits of prompt position `position`
  token,     // one generated token; `text` is what became printable with it (may be empty)
  finished,  // the terminal event, exactly once
};

enum class Finish : std::uint8_t {
  none,
  stop_token,   // the model ended the text
  stop_string,
  length,       // max_tokens reached
  context,      // the context is full
  complete,     // the answer is one of Request::choices, and nothing could follow
  cancelled,
  deadline,     // Request::deadline_ms has passed
  error,        // Event::error says what went wrong; other requests go on
};
std::string_view to_string(Finish finish);

struct Usage {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;
  std::int32_t cached_tokens = 0;   // prompt tokens taken from the prefix tree without computing anything
  std::int32_t rebuilt_tokens = 0;  // further ones of which only the sliding-window layers were computed again
  std::int32_t matched_tokens = 0;  // prompt tokens the prefix tree knew: the most that a hit could have been
  std::int32_t retractions = 0;     // times it gave its memory back, to an older request or after a fault, and was computed again
  double queue_ms = 0;        // submission to admission
  double prompt_ms = 0;       // submission to the first token drawn
  double completion_ms = 0;   // the rest
};

struct Event {
  EventKind kind = EventKind::token;
  std::int32_t token = -1;         // also set on `finished` after a stop token: the one that stopped
  std::int32_t position = -1;      // absolute position of the token, or of the logits
  std::string text;                // on `finished`: what was still held back
  std::vector<float> logits;       // [vocab], only where asked for
  std::uint64_t logit_digest = 0;  // digest of the logits the token was drawn from, bit for bit
  Finish finish = Finish::none;
  Usage usage;                     // on `finished`
  Error error;                     // on `finished` with Finish::error
};

struct EngineOptions {
  std::string device = "auto";    // "auto", "cpu"
  int threads = 0;                // CPU workers; 0: one per physical core this process may use
  bool pin = false;               // each CPU worker on a core of its own
  std::string isa;                // CPU kernels from this instruction set at most; empty: the best there is
  // How activations reach quantised weights: "q8" rounds them to signed bytes, within the budget of docs/QUALITY.md; "f32" is the
  // exact path. With q8 those weights are packed at load into memory of their own, which takes a moment.
  std::string act = "q8";
  // The form of cached keys and values: "f32", or within the budgets of docs/QUALITY.md "f16", "bf16", "q8" (signed bytes, a scale
  // for each row of each head). Sessions are saved in it and restored into the same.
  std::string kv = "f32";
  // Attention kernels: "" or "auto" chooses from what was measured, "off" is the plain one, a number cuts each row's keys into so
  // many tasks. No bit of the result depends on it.
  std::string attention;
  std::int32_t context = 0;       // positions a request may reach; 0: the model's own, at most 32,768
  std::int32_t chunk_rows = 256;  // most prompt rows of one step
  std::int32_t logit_rows = 32;   // most rows of one step whose logits are kept
  std::int32_t max_requests = 8;  // requests computed together; more wait their turn
  std::string loop = "chained";  // "chained[:k]": up to k steps launched before the host has seen the last; or "standard"
  bool prefix_cache = true;       // keep finished work: a prompt that begins like an earlier text continues from there
  std::int32_t cache_positions = 16384;  // full-attention positions kept beside the running request, at most one context
  std::int32_t cache_window_pages = 128; // pages of 16 rows kept for each sliding window; a 128-token window is 8 of them
  std::int32_t cache_states = 32;  // models with recurrent layers: states kept, each the place where one text can go on
  bool checked = false;           // guard bands, poison and bounds counted on every buffer
  bool diag = false;              // run op by op with a status check after each
};

// What was opened, for reports.
struct ModelInfo {
  std::string path;
  std::string family;
  std::string container;  // "safetensors", "gguf"
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;
  std::int32_t layers = 0;
  std::int32_t max_positions = 0;
  std::int32_t context = 0;
  std::vector<std::int32_t> eos_ids;
  std::int32_t bos_id = -1;  // -1: none
};

// Return false to cancel the request.
using EventFn = std::function<bool(const Event&)>;

using RequestId = std::uint64_t;

// The events of one submitted request. Thread rule: one thread at a time; different streams on different threads. There is no
// hidden thread: a thread that waits in next() computes, for every request, until its own event is there. Must not outlive its
// engine.
class Stream {
 public:
  Stream() = default;  // of no request
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  // Cancels a request that has not ended.
  ~Stream();

  RequestId id() const { return id_; }
  // The next event; waits for it. False after the terminal event has been returned.
  bool next(Event& event);
  // The next event if there is one already. Computes nothing.
  bool try_next(Event& event);
  // Ends the request with Finish::cancelled, unless it ends otherwise first. The events up to the terminal one still come.
  void cancel();

 private:
  friend class Engine;
  Stream(class EngineCore& core, RequestId id) : core_(&core), id_(id) {}
  class EngineCore* core_ = nullptr;
  RequestId id_ = 0;
};

// An opened model. Thread rule: any thread, unless a member says otherwise.
class Engine {
 public:
  // `model`: a directory in Hugging Face layout, a .safetensors or a .gguf file.
  // Errors: everything a file can do wrong (see ErrorCode), out_of_memory with the arithmetic.
  static Result<Engine> open(const std::string& model, const EngineOptions& options = {});

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  // REQUIRES: no stream is being waited on.
  ~Engine();

  const ModelInfo& info() const;

  // Text to ids and back. A tokenizer that begins texts with a token does so here too. Errors: limit_exceeded, unsupported.
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool parse_special = false) const;
  std::string decode(const std::vector<std::int32_t>& ids) const;
  // The id of a special token by its text, or -1.
  std::int32_t special_id(std::string_view text) const;

  // Queues a request. Nothing is truncated silently: a prompt longer than the context is refused, and an answer that reaches the
  // context's end finishes with Finish::context.
  // Errors: invalid_argument naming the field (empty prompt, ids outside the vocabulary, sampling out of range, choices that are
  // none); unsupported (a choice that this vocabulary cannot spell); limit_exceeded (too many or too long stops or choices); capacity (the
  // prompt can never fit the KV pools); cancelled (the engine is shutting down); device_lost.
  Result<Stream> submit(const Request& request);

  // Runs a request to its end and returns its terminal event. Events are delivered on the calling thread as they happen.
  // Errors: those of submit(); what ended the request with Finish::error (device_fault, device_lost, capacity). After a
  // device_fault the engine can be used again. A fault ends the request in whose row it was seen, or which was alone in its step;
  // where it names none of several, each of them runs a step alone, and the one that fails again ends. The others' answers have the
  // bits they would have had.
  Result<Event> generate(const Request& request, const EventFn& on_event = {});

  // Orders to the scheduler. Each waits until it is carried out: work in flight has settled first.
  void pause();   // nothing more is launched until resume(); requests keep their place
  void resume();
  void flush();   // forgets everything the prefix tree holds; requests go on

  // Writes what the prefix tree holds of `tokens` to a file, and takes such a file back in: a conversation goes on where it was,
  // also after a restart. Versioned and checksummed. Both wait for work in flight. Of a model with recurrent layers the file holds
  // the last state that the tree has of the text, and ends there.
  // save: returns how many tokens the file stands for (a multiple of 16). Errors: not_found (nothing is held), io.
  // restore: returns how many tokens a prompt that begins with them finds now. Errors: malformed, truncated, unsupported (another
  // version), shape_mismatch (of another model or layout), capacity; the engine is unchanged then.
  Result<std::int32_t> save_session(const std::vector<std::int32_t>& tokens, const std::string& file);
  Result<std::int32_t> restore_session(const std::string& file);

  class Impl;
  Impl& impl() { return *impl_; }              // for the program's own verbs; not part of the stable interface
  const Impl& impl() const { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
