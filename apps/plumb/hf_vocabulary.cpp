#include "hf_vocabulary.h"

#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/status.h"
#include "format/config.h"
#include "model/open_tokenizer.h"
#include "text/tokenizer_json_reader.h"
#include "text/vocab_source.h"

namespace plumb::app {
namespace {

using nlohmann::json;

// The expression of the Split step of tokenizer.json; a ByteLevel step that splits by itself uses GPT-2's. Members are looked
// up with care, although open_tokenizer has accepted the document.
std::string split_expression(const json& document) {
  const json none = json::object();
  const json& pre = document.contains("pre_tokenizer") ? document["pre_tokenizer"] : none;
  const json steps = pre.is_object() && pre.contains("pretokenizers") ? pre["pretokenizers"] : json::array({pre});
  std::string found;
  for (const json& step : steps) {
    const std::string type = step.is_object() ? step.value("type", "") : "";
    if (type == "Split" && step.contains("pattern") && step["pattern"].contains("Regex") && step["pattern"]["Regex"].is_string()) {
      found += step["pattern"]["Regex"].get<std::string>();
    } else if (type == "ByteLevel" && step.value("use_regex", true)) {
      found += text::split_of_pre_tokenizer("gpt-2");
    } else if (type != "ByteLevel") {
      found += "(" + type + ")";  // a step that no GGUF name stands for
    }
  }
  return found;
}

Result<std::string> pre_name(const json& document, const std::string& subject) {
  const std::string split = split_expression(document);
  for (const std::string_view name : text::known_pre_tokenizers()) {
    if (text::split_of_pre_tokenizer(name) == split) return std::string(name);
  }
  return fail(ErrorCode::unsupported, "GGUF has no name for this split expression", subject, "pre_tokenizer", printable(split, 200));
}

Status place(VocabularyData& out, std::int64_t id, std::string token, TokenType type, const std::string& subject) {
  if (id < 0 || static_cast<std::size_t>(id) >= out.tokens.size()) {
    return fail(ErrorCode::malformed, "the model has " + std::to_string(out.tokens.size()) + " tokens", subject, printable(token),
                std::to_string(id));
  }
  out.tokens[static_cast<std::size_t>(id)] = std::move(token);
  out.types[static_cast<std::size_t>(id)] = type;
  return {};
}

// The first of the ids under a key of either file.
Result<std::int64_t> special(const std::string& folder, const char* key, std::int64_t otherwise) {
  for (const char* file : {"/config.json", "/generation_config.json"}) {
    const auto config = format::Config::from_file(folder + file);
    if (!config.ok() && config.error().code == ErrorCode::not_found) continue;
    if (!config.ok()) return config.error();
    if (!config->has(key)) continue;
    PLUMB_ASSIGN(const std::vector<std::uint64_t> ids, config->require_uints(key, {0, (1U << 24) - 1}));
    if (!ids.empty()) return static_cast<std::int64_t>(ids.front());
  }
  return otherwise;
}

}  // namespace

Result<VocabularyData> read_hf_vocabulary(const format::Checkpoint& checkpoint, std::uint64_t size) {
  PLUMB_ASSIGN(const text::Tokenizer tokenizer, model::open_tokenizer(checkpoint));
  const std::string path = checkpoint.directory() + "/tokenizer.json";
  PLUMB_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  PLUMB_ASSIGN(const text::TokenizerJson parsed, text::read_tokenizer_json(bytes, path, {}));
  PLUMB_TRY(file.check());

  VocabularyData out;
  PLUMB_ASSIGN(out.pre, pre_name(*parsed.rest, path));
  out.tokens.resize(size);
  out.types.assign(size, TokenType::unused);
  for (std::size_t id = 0; id < size; ++id) out.tokens[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& entry : parsed.vocab) {
    PLUMB_TRY(place(out, entry.id, std::string(parsed.spelling(entry)), TokenType::normal, path));
  }
  if (parsed.rest->contains("added_tokens")) {
    for (const json& added : (*parsed.rest)["added_tokens"]) {
      const auto id = added.at("id").get<std::int64_t>();
      const TokenType type = added.value("special", false) ? TokenType::control : TokenType::user_defined;
      PLUMB_TRY(place(out, id, added.at("content").get<std::string>(), type, path));
    }
  }
  const std::string_view strings = parsed.strings;
  for (const auto& merge : parsed.merges) {
    const std::string_view both = strings.substr(merge.offset, merge.left + merge.right);
    out.merges.push_back(merge.joined ? std::string(both) : std::string(both.substr(0, merge.left)) + " " + std::string(both.substr(merge.left)));
  }
  PLUMB_ASSIGN(out.bos, special(checkpoint.directory(), "bos_token_id", tokenizer.bos_id().value_or(-1)));
  const auto eos = tokenizer.eos_ids();
  PLUMB_ASSIGN(out.eos, special(checkpoint.directory(), "eos_token_id", eos.empty() ? -1 : eos.front()));
  PLUMB_ASSIGN(out.pad, special(checkpoint.directory(), "pad_token_id", -1));
  if (tokenizer.adds_bos()) out.add_bos = true;
  return out;
}

}  // namespace plumb::app
