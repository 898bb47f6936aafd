#include "text/tokenizer_json_reader.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace plumb::text {
namespace {

using Json = nlohmann::json;

// Values outside the two lists: added tokens (eight each, a few thousand at most) and the description of the pipeline.
constexpr std::size_t kMaxTreeValues = std::size_t{1} << 20;

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(const std::string& subject, const ParseLimits& limits) : subject_(subject), limits_(limits) {}

  Result<TokenizerJson> finish(bool parsed) {
    if (error_) return std::move(*error_);
    if (!parsed || !tree_.is_object()) return fail(ErrorCode::malformed, "must be a JSON object", subject_);
    out_.rest = std::make_shared<const Json>(std::move(tree_));
    return std::move(out_);
  }

  bool null() override { return value(Json(nullptr)); }
  bool boolean(bool v) override { return value(Json(v)); }
  bool number_integer(number_integer_t v) override { return list_ == List::vocab ? vocab_id(v) : value(Json(v)); }
  bool number_unsigned(number_unsigned_t v) override {
    if (list_ != List::vocab) return value(Json(v));
    return vocab_id(v > INT32_MAX ? -1 : static_cast<number_integer_t>(v));
  }
  bool number_float(number_float_t v, const string_t& /*text*/) override { return value(Json(v)); }
  bool binary(binary_t& /*v*/) override { return bad("binary values have no place here"); }

  bool string(string_t& v) override {
    if (v.size() > limits_.max_string_bytes) return too_much("string", v.size());
    if (list_ == List::merges) {
      return merge({out_.strings.size(), static_cast<std::uint32_t>(v.size()), 0, true}, v);
    }
    if (list_ == List::pair) {
      if (sides_ >= 2) return bad("a merge has two sides");
      if (sides_ == 0) pair_offset_ = out_.strings.size();
      side_bytes_[sides_++] = static_cast<std::uint32_t>(v.size());
      out_.strings += v;
      return true;
    }
    return value(Json(std::move(v)));
  }

  bool key(string_t& v) override {
    if (list_ == List::vocab) {
      if (v.size() > limits_.max_string_bytes) return too_much("token", v.size());
      key_offset_ = out_.strings.size();
      key_length_ = static_cast<std::uint32_t>(v.size());
      out_.strings += v;
      return true;
    }
    key_ = std::move(v);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (list_ != List::none) return bad("a list of tokens has no objects in it");
    if (stack_.size() == 2 && in_model_ && key_ == "vocab") {
      list_ = List::vocab;
      return value(Json::object());
    }
    if (stack_.size() == 1) in_model_ = key_ == "model";
    return open(Json::object());
  }
  bool end_object() override {
    if (list_ == List::vocab) {
      list_ = List::none;
      return true;
    }
    stack_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (list_ == List::merges) {
      list_ = List::pair;
      sides_ = 0;
      return true;
    }
    if (list_ != List::none) return bad("a token's id is a number");
    if (stack_.size() == 2 && in_model_ && key_ == "merges") {
      list_ = List::merges;
      const bool added = value(Json::array(), true);
      return added;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (list_ == List::pair) {
      if (sides_ != 2) return bad("a merge has two sides");
      list_ = List::merges;
      return merge({pair_offset_, side_bytes_[0], side_bytes_[1], false}, {});
    }
    if (list_ == List::merges) {
      list_ = List::none;
      return true;
    }
    stack_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& /*error*/) override {
    if (!error_) error_ = fail(ErrorCode::malformed, "not JSON", subject_, "byte", std::to_string(position));
    return false;
  }

 private:
  enum class List : std::uint8_t { none, vocab, merges, pair };

  bool bad(std::string message) {
    error_ = fail(ErrorCode::malformed, std::move(message), subject_, where());
    return false;
  }
  bool too_much(const std::string& what, std::size_t found) {
    error_ = fail(ErrorCode::limit_exceeded, "is above the limit for a tokenizer file", subject_, what, std::to_string(found));
    return false;
  }
  std::string where() const {
    switch (list_) {
      case List::vocab: return "model.vocab";
      case List::merges:
      case List::pair: return "model.merges[" + std::to_string(out_.merges.size()) + "]";
      case List::none: break;
    }
    return key_;
  }

  bool vocab_id(std::int64_t id) {
    if (id < 0 || id > INT32_MAX) return bad("a token's id must be a number from 0 to 2147483647");
    if (out_.vocab.size() >= limits_.max_array) return too_much("model.vocab", out_.vocab.size() + 1);
    out_.vocab.push_back({key_offset_, key_length_, static_cast<std::int32_t>(id)});
    return true;
  }

  bool merge(TokenizerJson::Merge entry, std::string_view text) {
    if (out_.merges.size() >= limits_.max_array) return too_much("model.merges", out_.merges.size() + 1);
    out_.strings += text;
    out_.merges.push_back(entry);
    return true;
  }

  // Puts a scalar, or the stand-in of a list, into the tree.
  bool value(Json v, bool list_stand_in = false) {
    if (list_ == List::vocab && !v.is_object()) return bad("a token's id is a number");
    if ((list_ == List::merges && !list_stand_in) || list_ == List::pair) return bad("a merge is made of strings");
    return place(std::move(v)) != nullptr;
  }

  bool open(Json v) {
    if (stack_.size() >= limits_.max_depth) return too_much("depth", stack_.size() + 1);
    Json* placed = place(std::move(v));
    if (placed == nullptr) return false;
    stack_.push_back(placed);
    return true;
  }

  Json* place(Json v) {
    if (++tree_values_ > kMaxTreeValues) {
      too_much("values", tree_values_);
      return nullptr;
    }
    if (stack_.empty()) {
      tree_ = std::move(v);
      return &tree_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    if (parent.contains(key_)) {
      error_ = fail(ErrorCode::malformed, "a key stands twice", subject_, key_);
      return nullptr;
    }
    Json& slot = parent[key_];
    slot = std::move(v);
    return &slot;
  }

  const std::string& subject_;
  const ParseLimits& limits_;
  TokenizerJson out_;
  Json tree_;
  std::optional<Error> error_;
  std::vector<Json*> stack_;  // open containers; a parent does not change while a child is open, so the pointers hold
  std::string key_;
  std::size_t tree_values_ = 0;
  bool in_model_ = false;
  List list_ = List::none;
  std::size_t key_offset_ = 0;
  std::uint32_t key_length_ = 0;
  std::size_t pair_offset_ = 0;
  std::uint32_t side_bytes_[2] = {};
  std::size_t sides_ = 0;
};

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view json, const std::string& subject, const ParseLimits& limits) {
  if (json.size() > limits.max_header_bytes) {
    return fail(ErrorCode::limit_exceeded, "is larger than a tokenizer file may be", subject, "bytes",
                std::to_string(json.size()));
  }
  Reader reader(subject, limits);
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  return reader.finish(parsed);
}

}  // namespace plumb::text
