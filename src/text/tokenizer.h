// Text to token ids and back.
//
// Goals: the ids the model was trained on, exactly; bytes that survive a round trip; time linear in the text (up to a
// logarithm) whatever the text is; loading in milliseconds.
// Non-goals: training vocabularies, word-level and unigram models, normalisers that change letters. A file that asks for
// something not implemented is refused by name (ErrorCode::unsupported), never read approximately.
//
// Kinds: byte-level BPE (tokenizer.json, GGUF "gpt2") and SentencePiece-style BPE with byte fallback (GGUF "llama",
// llama2.c's tokenizer file).
//
// Text that is not valid UTF-8 is not an error and loses nothing: each run of bytes outside valid characters stands as a
// piece of its own between the valid pieces and is encoded byte by byte; decoding gives the same bytes back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse_limits.h"
#include "base/status.h"
#include "text/merge.h"

namespace plumb::text {

struct EncodeOptions {
  bool add_bos = false;        // put bos_id() first; an error when the tokenizer has none
  bool parse_special = false;  // recognise control tokens spelled in the text. Only for text the program itself wrote: in
                               // text from a user the spelling "<|end|>" must stay five ordinary tokens
};

struct DecodeOptions {
  bool skip_special = false;  // leave control tokens out
  bool continues = false;     // the ids follow other text: keep the space a SentencePiece vocabulary puts at a text's start
};

// Thread rule: immutable after loading; any number of threads may use one, and copies share the same data.
class Tokenizer {
 public:
  // Text longer than this many bytes is refused: token counts and offsets stay far inside 32 bits.
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

  // `stats`, when given, is added to. Errors: limit_exceeded (text above kMaxTextBytes, or a split expression that runs
  // out of steps), invalid_argument (add_bos without a bos token), unsupported (a byte that the vocabulary has no token for).
  Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options = {},
                                           EncodeStats* stats = nullptr) const;

  // The bytes of the ids, one after another: valid UTF-8 only if the ids end where characters end (StreamDecoder takes care
  // of that). An id that has no token contributes U+FFFD, so that it is seen.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  // What one id contributes to decode(); empty for an id that has no token.
  std::string_view token_bytes(std::int32_t id) const;
  bool has_token(std::int32_t id) const;

  // One more than the largest id. Ids below it without a token may exist.
  std::int32_t vocab_size() const;

  // A control token, e.g. <|end|>: not text, left out by skip_special, found in text only with parse_special.
  bool is_special(std::int32_t id) const;

  // The id of the added or control token with exactly this spelling.
  std::optional<std::int32_t> special_id(std::string_view content) const;

  // The id of the ordinary token with exactly these bytes.
  std::optional<std::int32_t> token_id(std::string_view bytes) const;

  std::optional<std::int32_t> bos_id() const;
  // Ids that end a text: from the file, or what the loader's caller said. May be empty.
  std::span<const std::int32_t> eos_ids() const;
  // The file asks for bos_id() in front of every text.
  bool adds_bos() const;
  // Decoding drops one space at the very start of a text (SentencePiece's dummy prefix).
  bool drops_first_space() const;

  struct Data;  // defined in tokenizer_data.h, for the loaders
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

// What a model's other files say about its tokenizer. Values here override those of the tokenizer file.
struct TokenizerConfig {
  std::optional<std::int32_t> bos_id = std::nullopt;
  std::vector<std::int32_t> eos_ids = {};
  std::optional<bool> add_bos = std::nullopt;
};

// Hugging Face tokenizer.json, byte-level BPE. Reads: added_tokens, pre_tokenizer (Sequence of Split, Digits and ByteLevel,
// or ByteLevel alone), normalizer (null or NFC), model BPE (both spellings of merges, ignore_merges), post_processor (null,
// ByteLevel, TemplateProcessing that puts one token in front, or a Sequence of these), decoder ByteLevel.
// `subject` names the text in errors. Errors: malformed, unsupported, limit_exceeded.
Result<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& subject, const TokenizerConfig& config = {},
                                      const ParseLimits& limits = {});

// The same from a file. Errors: also not_found, io.
Result<Tokenizer> load_tokenizer_json(const std::string& path, const TokenizerConfig& config = {},
                                      const ParseLimits& limits = {});

}  // namespace plumb::text
