// Requests and events as JSON. One list of fields per struct serves both directions: a structured binding names every member, so a
// member added to the struct does not compile until it is in the list.
#include "plumb/wire.h"

#include <array>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/printable.h"
#include "base/status.h"

namespace plumb {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::progress: return "progress";
    case EventKind::logits: return "logits";
    case EventKind::token: return "token";
    case EventKind::finished: return "finished";
  }
  return "unknown";
}

constexpr std::array kKinds = {EventKind::progress, EventKind::logits, EventKind::token, EventKind::finished};
constexpr std::array kFinishes = {Finish::none,      Finish::stop_token, Finish::stop_string, Finish::length,
                                  Finish::context,   Finish::complete,   Finish::cancelled,   Finish::deadline, Finish::error};
constexpr std::array kCodes = {
    ErrorCode::invalid_argument, ErrorCode::not_found,       ErrorCode::io,                ErrorCode::truncated,
    ErrorCode::malformed,        ErrorCode::limit_exceeded,  ErrorCode::unsupported,       ErrorCode::shape_mismatch,
    ErrorCode::missing_tensor,   ErrorCode::unexpected_tensor, ErrorCode::out_of_memory,   ErrorCode::allocation_while_encoding,
    ErrorCode::capacity,         ErrorCode::device_fault,    ErrorCode::device_lost,       ErrorCode::cancelled,
    ErrorCode::deadline_exceeded, ErrorCode::internal};

template <class T>
concept Enumeration = std::is_enum_v<T>;

// A 64-bit number written in hexadecimal.
template <class T>
struct Hex {
  T& number;
};

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, Sampling>
void fields(V& v, T& sampling) {
  auto& [temperature, top_p, min_p, top_k, seed, choice, repetition_penalty, frequency_penalty, presence_penalty] = sampling;
  v("temperature", temperature);
  v("top_p", top_p);
  v("min_p", min_p);
  v("top_k", top_k);
  v("seed", seed);
  v("choice", choice);
  v("repetition_penalty", repetition_penalty);
  v("frequency_penalty", frequency_penalty);
  v("presence_penalty", presence_penalty);
}

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, LogitBias>
void fields(V& v, T& entry) {
  auto& [token, bias] = entry;
  v("token", token);
  v("bias", bias);
}

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, Request>
void fields(V& v, T& request) {
  auto& [prompt, prompt_ids, parse_special, max_tokens, sampling, stop, stop_ids, ignore_eos, logit_bias, choices, priority, deadline_ms,
         branch_points, logit_positions, token_logits] = request;
  v("prompt", prompt);
  v("prompt_ids", prompt_ids);
  v("parse_special", parse_special);
  v("max_tokens", max_tokens);
  v("sampling", sampling);
  v("stop", stop);
  v("stop_ids", stop_ids);
  v("ignore_eos", ignore_eos);
  v("logit_bias", logit_bias);
  v("choices", choices);
  v("priority", priority);
  v("deadline_ms", deadline_ms);
  v("branch_points", branch_points);
  v("logit_positions", logit_positions);
  v("token_logits", token_logits);
}

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, Usage>
void fields(V& v, T& usage) {
  auto& [prompt_tokens, completion_tokens, cached_tokens, rebuilt_tokens, matched_tokens, retractions, queue_ms, prompt_ms, completion_ms] = usage;
  v("prompt_tokens", prompt_tokens);
  v("completion_tokens", completion_tokens);
  v("cached_tokens", cached_tokens);
  v("rebuilt_tokens", rebuilt_tokens);
  v("matched_tokens", matched_tokens);
  v("retractions", retractions);
  v("queue_ms", queue_ms);
  v("prompt_ms", prompt_ms);
  v("completion_ms", completion_ms);
}

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, Error>
void fields(V& v, T& error) {
  auto& [code, message, subject, field, value] = error;
  v("code", code);
  v("message", message);
  v("subject", subject);
  v("field", field);
  v("value", value);
}

template <class V, class T>
  requires std::same_as<std::remove_const_t<T>, Event>
void fields(V& v, T& event) {
  auto& [kind, token, position, text, logits, logit_digest, finish, usage, error] = event;
  v("kind", kind);
  v("token", token);
  v("position", position);
  v("text", text);
  v("logits", logits);
  v("logit_digest", Hex<std::remove_reference_t<decltype(logit_digest)>>{logit_digest});
  v("finish", finish);
  v("usage", usage);
  v("error", error);
}

// Leaves out the fields of an event that say nothing: one is sent for every token.
class Writer {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    ordered_json encoded = encode(value);
    if constexpr (std::same_as<T, Usage> || std::same_as<T, Error> || std::same_as<T, std::vector<float>>) {
      if (encoded == encode(T{})) return;
    }
    out_[name] = std::move(encoded);
  }
  ordered_json take() { return std::move(out_); }

 private:
  static ordered_json encode(bool value) { return value; }
  static ordered_json encode(std::int32_t value) { return value; }
  static ordered_json encode(std::uint64_t value) { return value; }
  static ordered_json encode(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  }
  static ordered_json encode(float value) { return encode(static_cast<double>(value)); }
  template <Enumeration T>
  static ordered_json encode(T value) {
    return to_string(value);
  }
  static ordered_json encode(const std::string& bytes) {
    if (is_utf8(bytes)) return bytes;
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (const char c : bytes) {
      hex += kDigits[static_cast<unsigned char>(c) >> 4];
      hex += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return {{"hex", std::move(hex)}};
  }
  template <class T>
  static ordered_json encode(const Hex<T>& value) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value.number));
    return text.data();
  }
  template <class T>
  static ordered_json encode(const std::vector<T>& values) {
    ordered_json out = ordered_json::array();
    for (const T& value : values) out.push_back(encode(value));
    return out;
  }
  template <class T>
  static ordered_json encode(const std::optional<T>& value) {
    return value ? encode(*value) : ordered_json();
  }
  template <class T>
    requires std::is_class_v<T>
  static ordered_json encode(const T& value) {
    Writer inner;
    fields(inner, value);
    return inner.take();
  }

  ordered_json out_ = ordered_json::object();
};

class Reader {
 public:
  Reader(const json& object, std::string subject, std::string path = {}) : fields_(object, std::move(subject), std::move(path)) {}

  template <class T>
  void operator()(const char* name, T&& out) {
    if (const json* value = fields_.find(name); value != nullptr && fields_.ok()) decode(name, *value, out);
  }
  Status finish() { return fields_.finish(); }

 private:
  void decode(const std::string& name, const json&, bool& out) { fields_.read(name.c_str(), out); }
  void decode(const std::string& name, const json&, std::int32_t& out) { fields_.read(name.c_str(), out); }
  void decode(const std::string& name, const json&, std::uint64_t& out) { fields_.read(name.c_str(), out); }
  void decode(const std::string& name, const json&, std::vector<std::int32_t>& out) { fields_.read(name.c_str(), out); }
  void decode(const std::string& name, const json& value, double& out) {
    if (value.is_string() ? !special(value, out) : !value.is_number()) return fields_.fail(name, "must be a number, or nan, inf or -inf", value);
    if (value.is_number()) out = value.get<double>();
  }
  void decode(const std::string& name, const json& value, float& out) {
    double wide = 0;
    decode(name, value, wide);
    const auto narrow = static_cast<float>(wide);
    if (std::isinf(narrow) && !std::isinf(wide)) return fields_.fail(name, "must fit a 32-bit float", value);
    out = narrow;
  }
  static bool special(const json& value, double& out) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") out = std::numeric_limits<double>::quiet_NaN();
    else if (text == "inf") out = std::numeric_limits<double>::infinity();
    else if (text == "-inf") out = -std::numeric_limits<double>::infinity();
    else return false;
    return true;
  }

  void decode(const std::string& name, const json& value, std::string& out) {
    if (value.is_string()) {
      out = value.get_ref<const std::string&>();
      return;
    }
    const bool hex = value.is_object() && value.size() == 1 && value.contains("hex") && value["hex"].is_string();
    if (!hex || !unhex(value["hex"].get_ref<const std::string&>(), out)) fields_.fail(name, "must be a string, or {\"hex\": bytes}", value);
  }
  static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
  static bool unhex(const std::string& text, std::string& out) {
    if (text.size() % 2 != 0) return false;
    out.clear();
    for (std::size_t i = 0; i < text.size(); i += 2) {
      const int high = digit(text[i]);
      const int low = digit(text[i + 1]);
      if (high < 0 || low < 0) return false;
      out += static_cast<char>(high * 16 + low);
    }
    return true;
  }
  template <class T>
  void decode(const std::string& name, const json& value, Hex<T>& out) {
    std::string bytes;
    if (!value.is_string() || !unhex(value.get_ref<const std::string&>(), bytes) || bytes.size() != 8) {
      return fields_.fail(name, "must be 16 hexadecimal digits", value);
    }
    out.number = 0;
    for (const char c : bytes) out.number = out.number << 8 | static_cast<unsigned char>(c);
  }

  void decode(const std::string& name, const json& value, EventKind& out) { decode_name(name, value, kKinds, out); }
  void decode(const std::string& name, const json& value, Finish& out) { decode_name(name, value, kFinishes, out); }
  void decode(const std::string& name, const json& value, ErrorCode& out) { decode_name(name, value, kCodes, out); }
  template <class T, std::size_t N>
  void decode_name(const std::string& name, const json& value, const std::array<T, N>& all, T& out) {
    for (const T one : all) {
      if (!value.is_string() || value.get_ref<const std::string&>() != to_string(one)) continue;
      out = one;
      return;
    }
    fields_.fail(name, "must be one of the names of its kind", value);
  }

  template <class T>
  void decode(const std::string& name, const json& value, std::vector<T>& out) {
    if (!value.is_array()) return fields_.fail(name, "must be an array", value);
    out.assign(value.size(), T{});
    for (std::size_t i = 0; i < out.size() && fields_.ok(); ++i) decode(name + "[" + std::to_string(i) + "]", value[i], out[i]);
  }
  template <class T>
  void decode(const std::string& name, const json& value, std::optional<T>& out) {
    decode(name, value, out.emplace());  // null means absent, and does not come here
  }
  template <class T>
    requires std::is_class_v<T>
  void decode(const std::string& name, const json& value, T& out) {
    Reader inner(value, fields_.subject(), fields_.name(name));
    fields(inner, out);
    fields_.take(inner.finish());
  }

  JsonFields fields_;
};

// Numbers of a prompt of a million tokens, or the logits of a vocabulary of a million.
constexpr ParseLimits kLimits = {.max_header_bytes = std::uint64_t{1} << 26, .max_depth = 8};

template <class T>
std::string write(const T& value) {
  Writer writer;
  fields(writer, value);
  return writer.take().dump();
}

template <class T>
Result<T> read(std::string_view text, const char* subject) {
  PLUMB_ASSIGN(const json document, parse_json(text, subject, kLimits));
  Reader reader(document, subject);
  T value;
  fields(reader, value);
  PLUMB_TRY(reader.finish());
  return value;
}

}  // namespace

std::string to_json(const Request& request) { return write(request); }
std::string to_json(const Event& event) { return write(event); }
Result<Request> request_from_json(std::string_view text) { return read<Request>(text, "request"); }
Result<Event> event_from_json(std::string_view text) { return read<Event>(text, "event"); }

}  // namespace plumb
