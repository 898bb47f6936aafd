#include "batch_request.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/status.h"
#include "serve/engine_impl.h"

namespace plumb::app {
namespace {

using nlohmann::json;

void read_sampling(JsonFields& fields, Sampling& sampling) {
  fields.read("temperature", sampling.temperature);
  fields.read("top_p", sampling.top_p);
  fields.read("min_p", sampling.min_p);
  fields.read("top_k", sampling.top_k);
  // Signed or unsigned, 64 bits: some clients draw negative seeds.
  if (const json* seed = fields.find("seed")) {
    if (seed->is_number_unsigned()) sampling.seed = seed->get<std::uint64_t>();
    else if (seed->is_number_integer()) sampling.seed = static_cast<std::uint64_t>(seed->get<std::int64_t>());
    else fields.fail("seed", "must be a whole number", *seed);
  }
  fields.read("repetition_penalty", sampling.repetition_penalty);
  fields.read("frequency_penalty", sampling.frequency_penalty);
  fields.read("presence_penalty", sampling.presence_penalty);
}

// {"50256": -100}: a bias by token id.
void read_logit_bias(JsonFields& fields, std::vector<LogitBias>& out) {
  const json* value = fields.find("logit_bias");
  if (value == nullptr) return;
  JsonFields biases(*value, fields.subject(), fields.name("logit_bias"));
  for (const auto& [key, bias] : value->items()) {
    LogitBias entry;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), entry.token);
    if (error != std::errc() || end != key.data() + key.size()) biases.fail(key.substr(0, 64), "must be named by a token id", bias);
    biases.read(key.c_str(), entry.bias);
    if (!biases.ok()) break;
    out.push_back(entry);
  }
  fields.take(biases.finish());
}

// What the two forms have in common.
void read_common(JsonFields& fields, Request& request) {
  read_sampling(fields, request.sampling);
  read_logit_bias(fields, request.logit_bias);
  if (const json* stop = fields.find("stop"); stop != nullptr && stop->is_string()) {
    request.stop = {stop->get<std::string>()};
  } else {
    fields.read("stop", request.stop);
  }
  fields.read("ignore_eos", request.ignore_eos);
  if (fields.has("choices")) fields.read("choices", request.choices.emplace());
  fields.read("priority", request.priority);
  fields.read("deadline_ms", request.deadline_ms);
}

void take_ids(const json& value, JsonFields& fields, const std::string& key, Request& request) {
  if (value.empty()) return fields.fail(key, "must hold at least one token", value);
  const json wrapped = {{key, value}};
  JsonFields reader(wrapped, fields.subject(), fields.path());
  reader.read(key.c_str(), request.prompt_ids);
  fields.take(reader.finish());
}

// A field whose only values here are those that ask for nothing.
void refuse(JsonFields& fields, const char* key, std::initializer_list<json> harmless) {
  const json* value = fields.find(key);
  if (value == nullptr || std::find(harmless.begin(), harmless.end(), *value) != harmless.end()) return;
  fields.fail(key, "is not supported in a batch", *value, ErrorCode::unsupported);
}

// One request per choice: they differ in the stream of random numbers alone.
void add_choices(std::int32_t choices, const Request& request, std::vector<Request>& out) {
  for (std::int32_t i = 0; i < choices; ++i) out.emplace_back(request).sampling.choice = i;
}

}  // namespace

BatchId batch_id(const json& line) {
  if (!line.is_object()) return {};
  const auto custom = line.find("custom_id");
  if (custom != line.end()) return {custom->is_string() ? custom->get<std::string>() : std::string(), false, true};
  const auto id = line.find("id");
  if (id == line.end()) return {};
  if (id->is_number_integer()) return {id->dump(), true, false};
  return {id->is_string() ? id->get<std::string>() : std::string(), false, false};
}

BatchReader::BatchReader(const Engine& engine, BatchDefaults defaults) : engine_(engine), defaults_(std::move(defaults)) {
  if (auto tokens = text::HarmonyTokens::find(engine.impl().tokenizer()); tokens.ok()) harmony_ = *tokens;
}

Request BatchReader::defaults() const { return {.max_tokens = defaults_.max_tokens, .sampling = defaults_.sampling}; }

Status BatchReader::read(std::uint64_t number, std::string_view text, BatchRequest& out) const {
  out.line = number;
  auto parsed = parse_json(text, "request", kLineLimits);
  if (!parsed.ok()) {
    Error error = std::move(parsed).error();
    constexpr std::string_view kOneLine = "parse error at line 1, ";  // the file's line is another, and is told beside
    if (error.value.starts_with(kOneLine)) error.value.erase(0, kOneLine.size());
    return error;
  }
  const json& line = *parsed;
  out.id = batch_id(line);
  const bool openai = line.is_object() && (out.id.openai || line.contains("url") || line.contains("body") || line.contains("method"));
  return openai ? read_openai(line, out) : read_plain(line, out);
}

Status BatchReader::read_plain(const json& line, BatchRequest& out) const {
  JsonFields fields(line, "request");
  Request request = defaults();
  const json* id = fields.find("id");
  if (out.id.text.empty()) fields.fail("id", "must be a string that is not empty, or a whole number", id == nullptr ? json() : *id);
  if (const json* sampling = fields.find("sampling")) {
    JsonFields inner(*sampling, "request", "sampling");
    read_sampling(inner, request.sampling);
    fields.take(inner.finish());
  }
  read_common(fields, request);
  fields.read("choice", request.sampling.choice);
  fields.read("n", request.max_tokens);
  fields.read("stop_ids", request.stop_ids);
  fields.read("special", request.parse_special);
  fields.read("prompt", request.prompt);
  if (const json* ids = fields.find("ids")) {
    if (fields.has("prompt")) fields.fail("ids", "must not stand beside prompt", *ids);
    if (ids->is_array() && ids->empty()) fields.fail("ids", "must hold at least one token", *ids);
    fields.read("ids", request.prompt_ids);
  } else if (!fields.has("prompt")) {
    fields.fail("prompt", "is needed, or ids", json());
  }
  out.requests = {std::move(request)};
  return fields.finish();
}

Status BatchReader::read_openai(const json& line, BatchRequest& out) const {
  JsonFields fields(line, "request");
  const json* id = fields.find("custom_id");
  if (out.id.text.empty() || !out.id.openai) fields.fail("custom_id", "must be a string that is not empty", id == nullptr ? json() : *id);
  std::string method;
  std::string url;
  fields.read("method", method);
  fields.read("url", url);
  if (method != "POST") fields.fail("method", "must be POST", method);
  if (url == "/v1/chat/completions") out.form = BatchForm::chat;
  else if (url == "/v1/completions") out.form = BatchForm::completion;
  else fields.fail("url", "must be /v1/completions or /v1/chat/completions", url);
  const json* value = fields.find("body");
  if (value == nullptr) fields.fail("body", "is needed", json());
  PLUMB_TRY(fields.finish());

  JsonFields body(*value, "request", "body");
  Request request = defaults();
  body.read("model", out.model);
  read_common(body, request);
  body.read("max_tokens", request.max_tokens);
  body.read("stop_token_ids", request.stop_ids);
  refuse(body, "stream", {false});
  refuse(body, "stream_options", {});
  for (const char* ignored : {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}) body.find(ignored);
  if (out.form == BatchForm::chat) {
    read_chat(body, std::move(request), out);
  } else {
    read_completion(body, std::move(request), out);
  }
  return body.finish();
}

void BatchReader::read_completion(JsonFields& body, Request request, BatchRequest& out) const {
  std::int32_t choices = 1;
  body.read("n", choices);
  refuse(body, "best_of", {1, choices});
  refuse(body, "echo", {false});
  refuse(body, "suffix", {""});
  refuse(body, "logprobs", {});
  const json* prompt = body.find("prompt");
  if (prompt == nullptr) return body.fail("prompt", "is needed", json());
  if (choices < 1 || choices > 128) return body.fail("n", "must be from 1 to 128", choices);

  // One text, one list of ids, or a list of either.
  const bool several = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  const std::size_t count = several ? prompt->size() : 1;
  if (count * static_cast<std::size_t>(choices) > kMaxAnswers) return body.fail("prompt", "asks for more than 1024 answers", *prompt);
  for (std::size_t i = 0; i < count && body.ok(); ++i) {
    const std::string key = several ? "prompt[" + std::to_string(i) + "]" : "prompt";
    const json& one = several ? (*prompt)[i] : *prompt;
    request.prompt.clear();
    request.prompt_ids.clear();
    if (one.is_string()) {
      request.prompt = one.get<std::string>();
    } else if (one.is_array()) {
      take_ids(one, body, key, request);
    } else {
      body.fail(key, "must be a text or a list of token ids", one);
    }
    add_choices(choices, request, out.requests);
  }
}

void BatchReader::read_chat(JsonFields& body, Request request, BatchRequest& out) const {
  if (!harmony_) {
    return body.fail("messages", "the model's vocabulary has no harmony tokens, so it knows no turns", json(engine_.info().path), ErrorCode::unsupported);
  }
  std::int32_t choices = 1;
  body.read("n", choices);
  body.read("max_completion_tokens", request.max_tokens);
  refuse(body, "tools", {json::array()});
  refuse(body, "tool_choice", {"none", "auto"});
  refuse(body, "functions", {json::array()});
  refuse(body, "response_format", {json::object({{"type", "text"}})});
  refuse(body, "logprobs", {false});
  refuse(body, "top_logprobs", {0});
  body.find("parallel_tool_calls");
  text::Conversation conversation;
  if (defaults_.system) {
    conversation.system = text::SystemMessage{};
    conversation.system->current_date = defaults_.date;
    conversation.system->effort = defaults_.effort;
  }
  if (const json* effort = body.find("reasoning_effort")) {
    const auto level = text::reasoning_effort_from(effort->is_string() ? effort->get<std::string>() : std::string());
    if (!level) return body.fail("reasoning_effort", "must be low, medium or high", *effort);
    if (conversation.system) conversation.system->effort = *level;
  }
  read_messages(body, conversation);
  if (choices < 1 || choices > 128) return body.fail("n", "must be from 1 to 128", choices);
  // The answer to a chat is several messages with headers; a text is asked for only of the last one's content.
  if (request.choices) return body.fail("choices", "cannot be asked of a chat, whose answer is messages; use /v1/completions", json(*request.choices), ErrorCode::unsupported);
  if (!body.ok()) return;
  auto rendered = render(body, conversation, std::move(request));
  if (!rendered.ok()) return body.take(std::move(rendered).error());
  add_choices(choices, *rendered, out.requests);
}

Result<Request> BatchReader::render(JsonFields& body, const text::Conversation& conversation, Request request) const {
  auto ids = text::render_ids(engine_.impl().tokenizer(), *harmony_, conversation);
  if (!ids.ok()) {
    Error error = ids.error();
    error.field = body.name("messages") + (error.field.empty() ? "" : ": " + error.field);
    return error;
  }
  request.prompt_ids = std::move(*ids);
  // Where other lines are likely to part from this one: after the instructions, and before the last message.
  const std::vector<std::int32_t> starts = text::message_starts(request.prompt_ids, *harmony_);
  const std::size_t opening = (conversation.system ? 1U : 0U) + (conversation.developer ? 1U : 0U);
  const std::size_t last = starts.size() < 2 ? 0 : starts.size() - 2;  // the very last one begins the answer
  for (const std::size_t i : {std::min(opening, last), last}) {
    if (starts[i] > 0 && (request.branch_points.empty() || request.branch_points.back() < starts[i])) request.branch_points.push_back(starts[i]);
  }
  const auto stops = harmony_->stops();
  request.stop_ids.insert(request.stop_ids.end(), stops.begin(), stops.end());
  request.ignore_eos = true;  // <|end|> ends a message, not the answer
  return request;
}

}  // namespace plumb::app
