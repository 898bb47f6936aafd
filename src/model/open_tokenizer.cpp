#include "model/open_tokenizer.h"

#include <filesystem>
#include <limits>

#include "format/config.h"
#include "text/vocab_source.h"

namespace plumb::model {
namespace {

using format::Config;
using format::MetaArray;

constexpr format::UintRange kIds{0, static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())};

Result<std::optional<std::int32_t>> optional_id(const Config& config, std::string_view key) {
  if (!config.has(key)) return std::optional<std::int32_t>();
  PLUMB_ASSIGN(const std::uint64_t id, config.require_uint(key, kIds));
  return std::optional(static_cast<std::int32_t>(id));
}

Result<std::optional<bool>> optional_flag(const Config& config, std::string_view key) {
  if (!config.has(key)) return std::optional<bool>();
  PLUMB_ASSIGN(const bool flag, config.require_bool(key));
  return std::optional(flag);
}

Result<text::Tokenizer> from_gguf(const format::Checkpoint& checkpoint, const ParseLimits& limits) {
  const format::Metadata& metadata = checkpoint.metadata();
  const std::string& subject = checkpoint.subject();
  PLUMB_ASSIGN(const Config config, Config::from_metadata(metadata, subject, limits));
  text::VocabSource source;
  source.subject = subject;
  PLUMB_ASSIGN(const std::string kind, config.require_string("tokenizer.ggml.model"));
  PLUMB_ASSIGN(const std::string pre, config.optional_string("tokenizer.ggml.pre", ""));
  source.model = kind;
  source.pre = pre;

  const auto array = [&](std::string_view key) { return metadata.get<MetaArray>(key); };
  const MetaArray* tokens = array("tokenizer.ggml.tokens");
  if (tokens == nullptr) return fail(ErrorCode::not_found, "the file carries no vocabulary", subject, "tokenizer.ggml.tokens");
  PLUMB_ASSIGN(const std::vector<std::string_view> token_list, tokens->strings());
  source.tokens = token_list;

  std::vector<std::string_view> merges;
  if (const MetaArray* list = array("tokenizer.ggml.merges")) {
    PLUMB_ASSIGN(merges, list->strings());
  }
  source.merges = merges;

  std::vector<std::int32_t> types;
  if (const MetaArray* list = array("tokenizer.ggml.token_type")) {
    PLUMB_ASSIGN(const std::vector<std::int64_t> wide, list->integers());
    types.reserve(wide.size());
    // A type outside int32 is as unknown as any: 0 is none of GGUF's, and is refused with its place.
    for (const std::int64_t type : wide) types.push_back(type >= 0 && type <= 255 ? static_cast<std::int32_t>(type) : 0);
  }
  source.token_types = types;

  std::vector<float> scores;
  if (const MetaArray* list = array("tokenizer.ggml.scores")) {
    PLUMB_ASSIGN(const std::vector<double> wide, list->doubles());
    scores.assign(wide.begin(), wide.end());
  }
  source.scores = scores;

  PLUMB_ASSIGN(source.bos_id, optional_id(config, "tokenizer.ggml.bos_token_id"));
  PLUMB_ASSIGN(source.eos_id, optional_id(config, "tokenizer.ggml.eos_token_id"));
  PLUMB_ASSIGN(source.add_bos, optional_flag(config, "tokenizer.ggml.add_bos_token"));
  PLUMB_ASSIGN(source.add_space_prefix, config.optional_bool("tokenizer.ggml.add_space_prefix", true));
  return text::tokenizer_from_vocab(source, {}, limits);
}

Result<text::Tokenizer> from_directory(const format::Checkpoint& checkpoint, const ParseLimits& limits) {
  const std::filesystem::path folder = checkpoint.directory();
  text::TokenizerConfig ids;
  // Each file may be absent; the first that names an id is believed.
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = folder / name;
    if (!std::filesystem::exists(path)) continue;
    PLUMB_ASSIGN(const Config config, Config::from_file(path, limits));
    if (!ids.bos_id) {
      PLUMB_ASSIGN(ids.bos_id, optional_id(config, "bos_token_id"));
    }
    if (ids.eos_ids.empty() && config.has("eos_token_id")) {
      PLUMB_ASSIGN(const std::vector<std::uint64_t> ends, config.require_uints("eos_token_id", kIds));
      for (const std::uint64_t id : ends) ids.eos_ids.push_back(static_cast<std::int32_t>(id));
    }
  }
  if (const std::string path = folder / "tokenizer_config.json"; std::filesystem::exists(path)) {
    PLUMB_ASSIGN(const Config config, Config::from_file(path, limits));
    PLUMB_ASSIGN(ids.add_bos, optional_flag(config, "add_bos_token"));
  }
  return text::load_tokenizer_json(folder / "tokenizer.json", ids, limits);
}

}  // namespace

Result<text::Tokenizer> open_tokenizer(const format::Checkpoint& checkpoint, const ParseLimits& limits) {
  return checkpoint.container() == format::Container::gguf ? from_gguf(checkpoint, limits) : from_directory(checkpoint, limits);
}

}  // namespace plumb::model
