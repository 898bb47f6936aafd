// The inside of a Tokenizer, for the loaders that build one.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "text/added_tokens.h"
#include "text/text_model.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace plumb::text {

enum class TokenKind : std::uint8_t {
  none,     // an id without a token
  normal,   // made by the model
  added,    // found verbatim in any text, decoded verbatim
  control,  // special: found only with parse_special
  byte,     // SentencePiece's <0xNN>
};

struct Tokenizer::Data {
  Vocabulary vocabulary;           // decoded bytes; the reverse table holds what the model may produce
  std::vector<TokenKind> kinds;    // one per id
  // Added and control tokens in the order they are looked for: the second list only in the text the first one left, as
  // tokenizer.json treats its normalized ones.
  std::array<AddedTokens, 2> added;
  std::unique_ptr<TextModel> model;
  std::optional<std::int32_t> bos;
  std::vector<std::int32_t> eos;
  bool adds_bos = false;
  bool drops_first_space = false;

  // The added or control token spelled exactly so, or Vocabulary::kNone.
  std::int32_t added_id(std::string_view content) const;
};

// Checks the ids in `config` against the vocabulary and stores them. Errors: invalid_argument.
Status apply_config(Tokenizer::Data& data, const TokenizerConfig& config, const std::string& subject);

}  // namespace plumb::text
