// The inside of a Tokenizer, for the loaders that build one.
#pragma once

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
  AddedTokens added;               // added and control tokens
  std::unique_ptr<TextModel> model;
  std::optional<std::int32_t> bos;
  std::vector<std::int32_t> eos;
  bool adds_bos = false;
  bool drops_first_space = false;
};

// Checks the ids in `config` against the vocabulary and stores them. Errors: invalid_argument.
Status apply_config(Tokenizer::Data& data, const TokenizerConfig& config, const std::string& subject);

}  // namespace plumb::text
