#include "text/vocab_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "text/byte_level.h"
#include "text/byte_level_bpe.h"
#include "text/sentencepiece.h"

namespace plumb::text {
namespace {

// One line for each split expression that GGUF files name. `whole_first`: a piece that is a token as it stands is taken
// before any merge, which those vocabularies rely on.
struct PreTokenizer {
  std::string_view name;
  std::string_view pattern;
  bool whole_first;
};

constexpr std::string_view kGpt4oSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array kPreTokenizers = {
    PreTokenizer{"gpt-2", kGpt2Split, false},
    PreTokenizer{"gpt-4o", kGpt4oSplit, true},
    PreTokenizer{"llama-bpe", kLlama3Split, true},
    PreTokenizer{"qwen2", kQwen2Split, false},
};

constexpr auto kPreTokenizerNames = [] {
  std::array<std::string_view, kPreTokenizers.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPreTokenizers[i].name;
  return names;
}();

// GGUF's token types.
Result<TokenKind> kind_of(const VocabSource& source, std::size_t id) {
  if (source.token_types.empty()) return TokenKind::normal;
  switch (source.token_types[id]) {
    case 1: return TokenKind::normal;
    case 2:  // unknown
    case 3: return TokenKind::control;
    case 4: return TokenKind::added;
    case 5: return TokenKind::none;  // unused: decodes, is never produced
    case 6: return TokenKind::byte;
    default:
      return fail(ErrorCode::unsupported, "a token type from 1 to 6 is expected", source.subject,
                  "tokenizer.ggml.token_type[" + std::to_string(id) + "]", std::to_string(source.token_types[id]));
  }
}

Status check_sizes(const VocabSource& source, const ParseLimits& limits) {
  const auto malformed = [&](const char* field, std::size_t found) {
    return fail(ErrorCode::malformed, "must have one entry for each of the " + std::to_string(source.tokens.size()) + " tokens",
                source.subject, field, std::to_string(found));
  };
  if (source.tokens.empty()) return fail(ErrorCode::malformed, "has no tokens", source.subject, "tokenizer.ggml.tokens");
  if (source.tokens.size() > limits.max_array || source.merges.size() > limits.max_array) {
    return fail(ErrorCode::limit_exceeded, "too many entries", source.subject, "tokenizer.ggml.tokens",
                std::to_string(std::max(source.tokens.size(), source.merges.size())));
  }
  if (!source.token_types.empty() && source.token_types.size() != source.tokens.size()) {
    return malformed("tokenizer.ggml.token_type", source.token_types.size());
  }
  if (!source.scores.empty() && source.scores.size() != source.tokens.size()) {
    return malformed("tokenizer.ggml.scores", source.scores.size());
  }
  std::uint64_t bytes = 0;
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    bytes += source.tokens[id].size();
    if (bytes > limits.max_header_bytes) {
      return fail(ErrorCode::limit_exceeded, "the tokens are too long together", source.subject, "tokenizer.ggml.tokens",
                  std::to_string(bytes));
    }
    PLUMB_ASSIGN(const TokenKind kind, kind_of(source, id));
    if ((kind == TokenKind::added || kind == TokenKind::control) && source.tokens[id].size() > limits.max_name_bytes) {
      return fail(ErrorCode::limit_exceeded, "a control token is too long", source.subject,
                  "tokenizer.ggml.tokens[" + std::to_string(id) + "]", std::to_string(source.tokens[id].size()));
    }
  }
  return {};
}

Result<Tokenizer> finish(const VocabSource& source, std::shared_ptr<Tokenizer::Data> data, bool add_bos_default,
                         const TokenizerConfig& config) {
  TokenizerConfig from_file;
  from_file.bos_id = source.bos_id;
  if (source.eos_id) from_file.eos_ids = {*source.eos_id};
  from_file.add_bos = source.add_bos.value_or(add_bos_default && source.bos_id.has_value());
  PLUMB_TRY(apply_config(*data, from_file, source.subject));
  PLUMB_TRY(apply_config(*data, config, source.subject));
  return Tokenizer(std::move(data));
}

Result<Tokenizer> byte_level(const VocabSource& source, const TokenizerConfig& config) {
  const auto* pre = std::find_if(kPreTokenizers.begin(), kPreTokenizers.end(),
                                 [&](const PreTokenizer& known) { return known.name == source.pre; });
  if (pre == kPreTokenizers.end()) {
    std::string names;
    for (const std::string_view name : kPreTokenizerNames) names.append(names.empty() ? "" : ", ").append(name);
    return fail(ErrorCode::unsupported, "this split is not implemented; known are " + names, source.subject,
                "tokenizer.ggml.pre", std::string(source.pre));
  }
  ByteLevelParts parts;
  parts.ignore_merges = pre->whole_first;
  PLUMB_ASSIGN(SplitRegex split, SplitRegex::compile(pre->pattern, SplitKeep::both, source.subject, "tokenizer.ggml.pre"));
  parts.splits.push_back(std::move(split));

  auto data = std::make_shared<Tokenizer::Data>();
  data->vocabulary = Vocabulary(source.tokens.size());
  data->kinds.resize(source.tokens.size());
  std::vector<bool> made_by_model(source.tokens.size());
  std::string bytes;
  for (std::size_t i = 0; i < source.tokens.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string_view spelling = source.tokens[i];
    PLUMB_ASSIGN(const TokenKind kind, kind_of(source, i));
    if (kind == TokenKind::byte) {
      return fail(ErrorCode::unsupported, "byte tokens have no place in a byte-level vocabulary", source.subject,
                  "tokenizer.ggml.token_type[" + std::to_string(i) + "]", "6");
    }
    data->kinds[i] = kind;
    made_by_model[i] = kind == TokenKind::normal && byte_level_bytes(spelling, bytes) && !bytes.empty();
    data->vocabulary.set(id, made_by_model[i] ? std::string_view(bytes) : spelling);
    if ((kind == TokenKind::control || kind == TokenKind::added) && !spelling.empty()) {
      data->added[0].add(spelling, id, kind == TokenKind::control);
    }
  }
  data->vocabulary.index(made_by_model);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    parts.bytes[byte] = data->vocabulary.find(std::string_view(&one, 1));
  }
  MergeBuilder builder(data->vocabulary, source.merges.size(), source.subject, "tokenizer.ggml.merges");
  for (const std::string_view merge : source.merges) PLUMB_TRY(builder.add(merge));
  parts.merges = builder.take();
  data->model = std::make_unique<ByteLevelBpe>(std::move(parts));
  return finish(source, std::move(data), false, config);
}

Result<Tokenizer> sentencepiece(const VocabSource& source, const TokenizerConfig& config) {
  if (source.scores.empty()) {
    return fail(ErrorCode::malformed, "is required for this model", source.subject, "tokenizer.ggml.scores");
  }
  constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
  SentencePieceBuilder builder(source.tokens.size(), source.subject);
  for (std::size_t i = 0; i < source.tokens.size(); ++i) {
    PLUMB_ASSIGN(const TokenKind kind, kind_of(source, i));
    std::string spelling(source.tokens[i]);
    if (kind == TokenKind::normal || kind == TokenKind::none) {
      for (std::size_t at = spelling.find(kSpaceMark); at != std::string::npos; at = spelling.find(kSpaceMark, at + 1)) {
        spelling.replace(at, kSpaceMark.size(), " ");
      }
    }
    PLUMB_TRY(builder.add(spelling, source.scores[i], kind));
  }
  return finish(source, builder.take(source.add_space_prefix), true, config);
}

// A scalar of a little-endian file on any machine.
template <class T>
T little_endian(const char* from) {
  static_assert(std::endian::native == std::endian::little, "llama2.c files are little-endian");
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

std::span<const std::string_view> known_pre_tokenizers() { return kPreTokenizerNames; }

std::string_view split_of_pre_tokenizer(std::string_view name) {
  const auto row = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return row == kPreTokenizers.end() ? std::string_view{} : row->pattern;
}

Result<Tokenizer> tokenizer_from_vocab(const VocabSource& source, const TokenizerConfig& config, const ParseLimits& limits) {
  PLUMB_TRY(check_sizes(source, limits));
  if (source.model == "gpt2") return byte_level(source, config);
  if (source.model == "llama") return sentencepiece(source, config);
  return fail(ErrorCode::unsupported, "this kind of tokenizer is not implemented; known are gpt2, llama", source.subject,
              "tokenizer.ggml.model", std::string(source.model));
}

Result<Tokenizer> tokenizer_from_llama2c(std::string_view bytes, const std::string& subject, const TokenizerConfig& config,
                                         const ParseLimits& limits) {
  if (bytes.size() > limits.max_header_bytes) {
    return fail(ErrorCode::limit_exceeded, "is larger than a tokenizer file may be", subject, "bytes", std::to_string(bytes.size()));
  }
  struct Entry {
    std::string_view spelling;
    float score;
  };
  constexpr std::size_t kHead = 4;
  constexpr std::size_t kEntryHead = 8;
  const auto truncated = [&](std::size_t token) {
    return fail(ErrorCode::truncated, "ends in the middle of a token", subject, "tokens[" + std::to_string(token) + "]");
  };
  if (bytes.size() < kHead) return truncated(0);
  std::vector<Entry> entries;
  for (std::size_t at = kHead; at < bytes.size();) {
    if (bytes.size() - at < kEntryHead) return truncated(entries.size());
    const auto score = little_endian<float>(bytes.data() + at);
    const auto length = little_endian<std::int32_t>(bytes.data() + at + 4);
    at += kEntryHead;
    if (length < 0 || static_cast<std::uint32_t>(length) > limits.max_name_bytes) {
      return fail(ErrorCode::malformed, "a token's length is out of range", subject,
                  "tokens[" + std::to_string(entries.size()) + "].length", std::to_string(length));
    }
    if (bytes.size() - at < static_cast<std::size_t>(length)) return truncated(entries.size());
    entries.push_back({bytes.substr(at, static_cast<std::size_t>(length)), score});
    at += static_cast<std::size_t>(length);
  }
  constexpr std::array<std::string_view, 3> kControl = {"<unk>", "<s>", "</s>"};
  if (entries.size() < kControl.size()) return fail(ErrorCode::malformed, "has too few tokens", subject, "tokens", std::to_string(entries.size()));
  SentencePieceBuilder builder(entries.size(), subject);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i < kControl.size()) {
      PLUMB_TRY(builder.add(kControl[i], entries[i].score, TokenKind::control));
    } else {
      const bool byte = byte_of_spelling(entries[i].spelling).has_value();
      PLUMB_TRY(builder.add(entries[i].spelling, entries[i].score, byte ? TokenKind::byte : TokenKind::normal));
    }
  }
  VocabSource source;
  source.subject = subject;
  source.bos_id = 1;
  source.eos_id = 2;
  return finish(source, builder.take(true), true, config);
}

}  // namespace plumb::text
