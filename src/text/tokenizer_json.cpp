#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "text/byte_level.h"
#include "text/byte_level_bpe.h"
#include "text/tokenizer.h"
#include "text/tokenizer_data.h"
#include "text/tokenizer_json_reader.h"

namespace plumb::text {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxSplits = 16;  // the longest pipeline in use has three

// Reads the small part of the document. Every key that is not read is refused, because it might change the ids.
class Loader {
 public:
  Loader(TokenizerJson document, std::string subject, const ParseLimits& limits)
      : document_(std::move(document)), subject_(std::move(subject)), limits_(limits),
        data_(std::make_shared<Tokenizer::Data>()) {}

  Result<Tokenizer> run(const TokenizerConfig& config) {
    const Json& root = *document_.rest;
    PLUMB_TRY(only(root, "", {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                              "post_processor", "decoder", "model"}));
    PLUMB_TRY(must_be_null(root, "truncation"));
    PLUMB_TRY(must_be_null(root, "padding"));
    PLUMB_TRY(read_normalizer(member(root, "normalizer"), "normalizer"));
    PLUMB_TRY(read_model(member(root, "model")));
    PLUMB_TRY(read_pre_tokenizer(member(root, "pre_tokenizer")));
    PLUMB_TRY(read_decoder(member(root, "decoder"), "decoder"));
    PLUMB_TRY(read_vocabulary(member(root, "added_tokens")));
    PLUMB_TRY(read_post_processor(member(root, "post_processor"), "post_processor"));
    PLUMB_TRY(read_merges());
    data_->model = std::make_unique<ByteLevelBpe>(std::move(parts_));
    PLUMB_TRY(apply_config(*data_, config, subject_));
    return Tokenizer(std::move(data_));
  }

 private:
  static const Json& member(const Json& object, const char* key) {
    static const Json nothing;
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() ? *found : nothing;
  }
  Error unsupported(const std::string& field, const Json& value) const {
    return fail(ErrorCode::unsupported, "this tokenizer feature is not implemented", subject_, field, text_of(value));
  }
  Error malformed(const std::string& field, std::string message, std::string value = {}) const {
    return fail(ErrorCode::malformed, std::move(message), subject_, field, std::move(value));
  }
  static std::string text_of(const Json& value) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true, Json::error_handler_t::replace);
    constexpr std::size_t kShown = 80;
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return text;
  }

  Status only(const Json& object, const std::string& field, std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) return malformed(field, "must be an object");
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        return unsupported(field.empty() ? key : field + "." + key, value);
      }
    }
    return {};
  }
  Status must_be_null(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    return unsupported(key, value);
  }
  // A flag with its default. Errors: malformed when it is something else than true or false.
  Result<bool> flag(const Json& object, const std::string& field, const char* key, bool absent) const {
    const Json& value = member(object, key);
    if (value.is_null()) return absent;
    if (!value.is_boolean()) return malformed(field + "." + key, "must be true or false", text_of(value));
    return value.get<bool>();
  }
  Result<std::string> type_of(const Json& object, const std::string& field) const {
    const Json& type = member(object, "type");
    if (!type.is_string()) return malformed(field + ".type", "must be a string", text_of(type));
    return type.get<std::string>();
  }

  Status read_model(const Json& model) {
    PLUMB_TRY(only(model, "model", {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                    "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
    const Json& type = member(model, "type");
    if (!(type.is_null() || type == "BPE")) return unsupported("model.type", type);
    const Json& dropout = member(model, "dropout");
    if (!(dropout.is_null() || dropout == 0.0)) return unsupported("model.dropout", dropout);
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = member(model, affix);
      if (!(value.is_null() || value == "")) return unsupported(std::string("model.") + affix, value);
    }
    PLUMB_ASSIGN(const bool fallback, flag(model, "model", "byte_fallback", false));
    if (fallback) return unsupported("model.byte_fallback", true);
    PLUMB_ASSIGN(parts_.ignore_merges, flag(model, "model", "ignore_merges", false));
    if (document_.vocab.empty()) return malformed("model.vocab", "must be an object with at least one token");
    if (!member(model, "merges").is_array()) return malformed("model.merges", "must be an array");
    return {};
  }

  Status read_normalizer(const Json& value, const std::string& field) {
    if (value.is_null()) return {};
    PLUMB_ASSIGN(const std::string type, type_of(value, field));
    if (type == "NFC") {
      parts_.nfc = true;
      return only(value, field, {"type"});
    }
    if (type != "Sequence") return unsupported(field + ".type", type);
    PLUMB_TRY(only(value, field, {"type", "normalizers"}));
    const Json& list = member(value, "normalizers");
    if (!list.is_array()) return malformed(field + ".normalizers", "must be an array");
    for (const Json& normalizer : list) {
      if (member(normalizer, "type") == "Sequence") return unsupported(field + ".normalizers", normalizer);
      PLUMB_TRY(read_normalizer(normalizer, field + ".normalizers"));
    }
    return {};
  }

  Status read_pre_tokenizer(const Json& value) {
    std::vector<const Json*> steps;
    if (value.is_null()) return unsupported("pre_tokenizer", value);
    PLUMB_ASSIGN(const std::string type, type_of(value, "pre_tokenizer"));
    if (type == "Sequence") {
      PLUMB_TRY(only(value, "pre_tokenizer", {"type", "pretokenizers"}));
      const Json& list = member(value, "pretokenizers");
      if (!list.is_array()) return malformed("pre_tokenizer.pretokenizers", "must be an array");
      for (const Json& step : list) steps.push_back(&step);
    } else {
      steps.push_back(&value);
    }
    if (steps.size() > kMaxSplits) {
      return fail(ErrorCode::limit_exceeded, "too many pre-tokenizers", subject_, "pre_tokenizer", std::to_string(steps.size()));
    }
    bool byte_level = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string field = steps.size() == 1 ? "pre_tokenizer" : "pre_tokenizer.pretokenizers[" + std::to_string(i) + "]";
      if (byte_level) return unsupported(field, *steps[i]);  // after ByteLevel a step would see the byte alphabet
      PLUMB_TRY(read_split(*steps[i], field, byte_level));
    }
    if (!byte_level) return unsupported("pre_tokenizer", "no ByteLevel step");
    return {};
  }

  Status read_split(const Json& step, const std::string& field, bool& byte_level) {
    PLUMB_ASSIGN(const std::string type, type_of(step, field));
    if (type == "ByteLevel") {
      PLUMB_TRY(only(step, field, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
      PLUMB_ASSIGN(const bool prefix, flag(step, field, "add_prefix_space", true));
      if (prefix) return unsupported(field + ".add_prefix_space", true);
      PLUMB_ASSIGN(const bool regex, flag(step, field, "use_regex", true));
      byte_level = true;
      return regex ? add_split(kGpt2Split, SplitKeep::both, field) : Status{};
    }
    if (type == "Digits") {
      PLUMB_TRY(only(step, field, {"type", "individual_digits"}));
      PLUMB_ASSIGN(const bool single, flag(step, field, "individual_digits", false));
      return add_split(single ? "\\p{N}" : "\\p{N}+", SplitKeep::both, field);
    }
    if (type != "Split") return unsupported(field + ".type", type);
    PLUMB_TRY(only(step, field, {"type", "pattern", "behavior", "invert"}));
    const Json& pattern = member(step, "pattern");
    PLUMB_TRY(only(pattern, field + ".pattern", {"Regex", "String"}));
    const Json& regex = member(pattern, "Regex");
    const Json& literal = member(pattern, "String");
    if (regex.is_string() == literal.is_string()) return malformed(field + ".pattern", "must be one Regex or one String");
    const std::string expression =
        regex.is_string() ? regex.get<std::string>() : escaped(literal.get<std::string>());
    PLUMB_ASSIGN(const bool invert, flag(step, field, "invert", false));
    const Json& behavior = member(step, "behavior");
    if (behavior == "Isolated") return add_split(expression, SplitKeep::both, field);
    if (behavior == "Removed") return add_split(expression, invert ? SplitKeep::matches : SplitKeep::gaps, field);
    return unsupported(field + ".behavior", behavior);
  }

  static std::string escaped(std::string_view literal) {
    std::string out;
    for (const char c : literal) {
      if (static_cast<unsigned char>(c) < 0x80 && std::ispunct(static_cast<unsigned char>(c)) != 0) out.push_back('\\');
      out.push_back(c);
    }
    return out;
  }

  Status add_split(std::string_view pattern, SplitKeep keep, const std::string& field) {
    PLUMB_ASSIGN(SplitRegex split, SplitRegex::compile(pattern, keep, subject_, field));
    parts_.splits.push_back(std::move(split));
    return {};
  }

  // Decoding puts bytes together, which is what ByteLevel asks for. Its options only move offsets.
  Status read_decoder(const Json& decoder, const std::string& field) const {
    PLUMB_ASSIGN(const std::string type, type_of(decoder, field));
    if (type == "Sequence") {
      PLUMB_TRY(only(decoder, field, {"type", "decoders"}));
      const Json& list = member(decoder, "decoders");
      if (!list.is_array() || list.size() != 1) return unsupported(field + ".decoders", list);
      if (member(list[0], "type") != "ByteLevel") return unsupported(field + ".decoders[0]", list[0]);
      return read_decoder(list[0], field + ".decoders[0]");
    }
    if (type != "ByteLevel") return unsupported(field + ".type", type);
    return only(decoder, field, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  Status read_vocabulary(const Json& added) {
    if (!(added.is_null() || added.is_array())) return malformed("added_tokens", "must be an array");
    std::int32_t largest = 0;
    for (const auto& entry : document_.vocab) largest = std::max(largest, entry.id);
    if (added.is_array()) {
      for (const Json& token : added) {
        const Json& id = member(token, "id");
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX) {
          return malformed("added_tokens.id", "must be a number from 0 to 2147483647", text_of(id));
        }
        largest = std::max(largest, id.get<std::int32_t>());
      }
    }
    // The tables below are as long as the largest id, so it may not run away from what the file really lists.
    const std::size_t listed = document_.vocab.size() + added.size();
    const std::size_t size = static_cast<std::size_t>(largest) + 1;
    if (size > 16 * listed + 4096) {
      return fail(ErrorCode::limit_exceeded, "the largest token id is far above the number of tokens", subject_, "model.vocab",
                  std::to_string(largest));
    }
    data_->vocabulary = Vocabulary(size);
    data_->kinds.assign(size, TokenKind::none);
    std::vector<bool> made_by_model(size);
    std::string bytes;
    for (const auto& entry : document_.vocab) {
      const std::string_view spelling = document_.spelling(entry);
      const auto at = static_cast<std::size_t>(entry.id);
      if (data_->kinds[at] != TokenKind::none) return malformed("model.vocab", "two tokens have one id", std::to_string(entry.id));
      made_by_model[at] = byte_level_bytes(spelling, bytes);
      data_->vocabulary.set(entry.id, made_by_model[at] ? std::string_view(bytes) : spelling);
      data_->kinds[at] = TokenKind::normal;
    }
    if (added.is_array()) {
      for (const Json& token : added) PLUMB_TRY(read_added(token));
    }
    data_->vocabulary.index(made_by_model);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(byte);
      parts_.bytes[byte] = data_->vocabulary.find(std::string_view(&one, 1));
    }
    return {};
  }

  Status read_added(const Json& token) {
    PLUMB_TRY(only(token, "added_tokens", {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    const Json& content = member(token, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return malformed("added_tokens.content", "must be a string that is not empty", text_of(content));
    }
    const std::string& text = content.get_ref<const std::string&>();
    if (text.size() > limits_.max_name_bytes) {
      return fail(ErrorCode::limit_exceeded, "an added token is too long", subject_, "added_tokens.content",
                  std::to_string(text.size()));
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      PLUMB_ASSIGN(const bool set, flag(token, "added_tokens", key, false));
      if (set) return unsupported("added_tokens." + std::string(key), text);
    }
    PLUMB_ASSIGN(const bool special, flag(token, "added_tokens", "special", false));
    const auto id = member(token, "id").get<std::int32_t>();
    const auto at = static_cast<std::size_t>(id);
    if (data_->kinds[at] == TokenKind::added || data_->kinds[at] == TokenKind::control) {
      return malformed("added_tokens", "two tokens have one id", std::to_string(id));
    }
    data_->vocabulary.set(id, text);
    data_->kinds[at] = special ? TokenKind::control : TokenKind::added;
    PLUMB_ASSIGN(const bool normalized, flag(token, "added_tokens", "normalized", !special));
    // Such a token is looked for in normalized text, and normalizing reaches across its ends.
    if (normalized && parts_.nfc) return unsupported("added_tokens.normalized", text);
    data_->added[normalized ? 1 : 0].add(text, id, special);
    return {};
  }

  // What is put around a text: at most one token, in front.
  Status read_post_processor(const Json& value, const std::string& field) {
    if (value.is_null()) return {};
    PLUMB_ASSIGN(const std::string type, type_of(value, field));
    if (type == "ByteLevel") return only(value, field, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (type == "Sequence") {
      PLUMB_TRY(only(value, field, {"type", "processors"}));
      const Json& list = member(value, "processors");
      if (!list.is_array()) return malformed(field + ".processors", "must be an array");
      for (const Json& processor : list) {
        if (member(processor, "type") == "Sequence") return unsupported(field + ".processors", processor);
        PLUMB_TRY(read_post_processor(processor, field + ".processors"));
      }
      return {};
    }
    if (type != "TemplateProcessing") return unsupported(field + ".type", type);
    PLUMB_TRY(only(value, field, {"type", "single", "pair", "special_tokens"}));
    const Json& single = member(value, "single");
    if (!single.is_array()) return malformed(field + ".single", "must be an array");
    if (single.empty() || !single.back().contains("Sequence") || single.size() > 2) return unsupported(field + ".single", single);
    if (single.size() == 1) return {};
    const Json& token = member(member(single[0], "SpecialToken"), "id");
    const std::int32_t id = token.is_string() ? data_->added_id(token.get_ref<const std::string&>()) : Vocabulary::kNone;
    if (id == Vocabulary::kNone) return malformed(field + ".single", "must name an added token", text_of(single[0]));
    data_->bos = id;
    data_->adds_bos = true;
    return {};
  }

  Status read_merges() {
    // An unknown-token stands in for bytes without a token; with all 256 there it can never appear.
    const bool complete = std::find(parts_.bytes.begin(), parts_.bytes.end(), Vocabulary::kNone) == parts_.bytes.end();
    const Json& unknown = member(member(*document_.rest, "model"), "unk_token");
    if (!unknown.is_null() && !complete) return unsupported("model.unk_token", unknown);
    MergeBuilder builder(data_->vocabulary, document_.merges.size(), subject_, "model.merges");
    const std::string_view strings = document_.strings;
    for (const auto& merge : document_.merges) {
      const std::string_view left = strings.substr(merge.offset, merge.left);
      if (merge.joined) {
        PLUMB_TRY(builder.add(left));
      } else {
        PLUMB_TRY(builder.add(left, strings.substr(merge.offset + merge.left, merge.right)));
      }
    }
    parts_.merges = builder.take();
    return {};
  }

  TokenizerJson document_;
  std::string subject_;
  const ParseLimits& limits_;
  std::shared_ptr<Tokenizer::Data> data_;
  ByteLevelParts parts_;
};

}  // namespace

Result<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& subject, const TokenizerConfig& config,
                                      const ParseLimits& limits) {
  PLUMB_ASSIGN(TokenizerJson document, read_tokenizer_json(json, subject, limits));
  return Loader(std::move(document), subject, limits).run(config);
}

Result<Tokenizer> load_tokenizer_json(const std::string& path, const TokenizerConfig& config, const ParseLimits& limits) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorCode::not_found, "cannot be opened", path);
  const std::streamoff size = file.tellg();
  if (size < 0) return fail(ErrorCode::io, "has no size", path);
  if (static_cast<std::uint64_t>(size) > limits.max_header_bytes) {
    return fail(ErrorCode::limit_exceeded, "is larger than a tokenizer file may be", path, "bytes", std::to_string(size));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return fail(ErrorCode::io, "cannot be read to its end", path);
  return tokenizer_from_json(text, path, config, limits);
}

}  // namespace plumb::text
