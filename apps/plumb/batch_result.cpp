#include "batch_result.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "serve/engine_impl.h"
#include "text/harmony_parser.h"

namespace plumb::app {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string dump(const ordered_json& document) { return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

ordered_json id_of(const BatchId& id) {
  if (id.text.empty()) return nullptr;
  if (!id.number) return id.text;
  return ordered_json::parse(id.text);
}

// What an answer is known by, and what it cost.
ordered_json figures(const Answer& answer) {
  const Usage& usage = answer.end.usage;
  return {{"finish", to_string(answer.end.finish)},
          {"prompt_tokens", usage.prompt_tokens},
          {"tokens", usage.completion_tokens},
          {"cached_tokens", usage.cached_tokens},
          {"rebuilt_tokens", usage.rebuilt_tokens},
          {"matched_tokens", usage.matched_tokens},
          {"retractions", usage.retractions},
          {"queue_ms", usage.queue_ms},
          {"first_token_ms", usage.prompt_ms},
          {"tokens_per_s", decode_rate(usage)},
          {"fingerprint", {{"tokens", answer.token_fingerprint()}, {"logits", answer.logit_fingerprint()}}},
          {"ids", answer.ids}};
}

const char* finish_reason(Finish finish) {
  switch (finish) {
    case Finish::length:
    case Finish::context: return "length";
    case Finish::deadline: return "deadline";
    default: return "stop";
  }
}

// A stop string ends the text before it. The engine saw it in the text of the whole answer; a message is a part of that.
void cut_at_stop(std::string& text, const std::vector<std::string>& stops) {
  std::size_t cut = text.size();
  for (const std::string& stop : stops) cut = std::min(cut, text.find(stop));
  text.resize(cut);
}

ordered_json chat_message(const Answer& answer, const Request& request, const BatchReader& reader, const Engine& engine) {
  std::string content;
  std::string reasoning;
  for (const text::Message& m : text::parse_messages(engine.impl().tokenizer(), *reader.harmony(), answer.ids).messages) {
    const bool said = m.channel == "final" || (m.channel.empty() && m.recipient.empty());
    (said ? content : reasoning) += m.content;
  }
  if (answer.end.finish == Finish::stop_string) {
    cut_at_stop(content, request.stop);
    cut_at_stop(reasoning, request.stop);
  }
  ordered_json message = {{"role", "assistant"}, {"content", content}, {"refusal", nullptr}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  return message;
}

ordered_json choice_of(std::size_t index, const BatchRequest& request, const Answer& answer, const BatchReader& reader, const Engine& engine) {
  ordered_json choice = {{"index", index}};
  if (request.form == BatchForm::chat) {
    choice["message"] = chat_message(answer, request.requests[index], reader, engine);
  } else {
    choice["text"] = answer.text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(answer.end.finish);
  choice["plumb"] = figures(answer);
  return choice;
}

// Answers to one prompt stand together and differ in their choice; its tokens count once.
ordered_json usage_of(const BatchRequest& request, const std::vector<Answer>& answers) {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  std::int64_t cached = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Usage& usage = answers[i].end.usage;
    completion += usage.completion_tokens;
    if (request.requests[i].sampling.choice != 0) continue;
    prompt += usage.prompt_tokens;
    cached += usage.cached_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

ordered_json openai_frame(const BatchRequest& request, int status, ordered_json body) {
  return {{"id", fmt::format("batch_req_{}", request.line)},
          {"custom_id", request.id.text},
          {"line", request.line},
          {"response", {{"status_code", status}, {"request_id", fmt::format("req_{}", request.line)}, {"body", std::move(body)}}},
          {"error", nullptr}};
}

// The request's fault, as HTTP has it, or ours.
bool is_clients(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::malformed:
    case ErrorCode::truncated:
    case ErrorCode::limit_exceeded:
    case ErrorCode::unsupported:
    case ErrorCode::capacity: return true;
    default: return false;
  }
}

}  // namespace

std::string result_line(const BatchRequest& request, const std::vector<Answer>& answers, const BatchReader& reader, const Engine& engine,
                        std::int64_t created) {
  if (request.form == BatchForm::plain) {
    ordered_json out = {{"id", id_of(request.id)}, {"line", request.line}, {"text", answers.front().text}};
    out.update(figures(answers.front()));
    return dump(out);
  }
  const bool chat = request.form == BatchForm::chat;
  ordered_json choices = ordered_json::array();
  for (std::size_t i = 0; i < answers.size(); ++i) choices.push_back(choice_of(i, request, answers[i], reader, engine));
  return dump(openai_frame(request, 200,
                           {{"id", fmt::format("{}-{}", chat ? "chatcmpl" : "cmpl", request.line)},
                            {"object", chat ? "chat.completion" : "text_completion"},
                            {"created", created},
                            {"model", request.model.empty() ? engine.info().path : request.model},
                            {"choices", std::move(choices)},
                            {"usage", usage_of(request, answers)}}));
}

std::string error_line(const BatchRequest& request, const Error& error) {
  const std::string code(to_string(error.code));
  if (!request.id.openai || request.id.text.empty()) {
    return dump({{"id", request.id.openai ? ordered_json() : id_of(request.id)},
                 {"line", request.line},
                 {"error", {{"code", code}, {"message", error.message}, {"field", error.field}, {"value", error.value}}}});
  }
  const bool clients = is_clients(error.code);
  const std::string message = fmt::format("line {}: {}{}{}", request.line, error.field.empty() ? "" : error.field + ": ", error.message,
                                          error.value.empty() ? "" : " (found " + error.value + ")");
  return dump(openai_frame(request, clients ? 400 : 500,
                           {{"error",
                             {{"message", message},
                              {"type", clients ? "invalid_request_error" : "server_error"},
                              {"param", error.field.empty() ? ordered_json() : ordered_json(error.field)},
                              {"code", code},
                              {"value", error.value}}}}));
}

bool is_result(const json& line) {
  if (!line.is_object() || !line.contains("id") || !line.contains("line") || !line["line"].is_number_unsigned()) return false;
  if (line.contains("custom_id")) return line.contains("response") && line["response"].is_object() && line["response"].contains("status_code");
  return line.contains("finish") || line.contains("error");
}

bool is_error_result(const json& line) {
  if (line.contains("custom_id")) return line["response"]["status_code"] != 200;
  return line.contains("error");
}

}  // namespace plumb::app
