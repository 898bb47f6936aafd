// SentencePiece-style BPE with byte fallback: the Llama family's tokenizer.
//
// A text is a run of characters; the neighbours whose joined spelling is a token with the highest score merge first, leftmost
// among equals. A character that ends up without a token is written as its bytes. Tokens spell a space as U+2581; here they
// hold a plain space, so a literal U+2581 in a text is itself and not a space (it becomes bytes unless it has a token).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_model.h"
#include "text/tokenizer_data.h"

namespace plumb::text {

class SentencePieceBpe final : public TextModel {
 public:
  struct Parts {
    std::vector<std::uint32_t> priorities;   // one per id, lower merges first
    std::array<std::int32_t, 256> bytes{};   // the token of each byte, or Vocabulary::kNone
    bool space_first = true;                 // a text starts as if a space stood before it
  };
  explicit SentencePieceBpe(Parts parts) : parts_(std::move(parts)) {}

  Status encode(const Vocabulary& vocabulary, std::string_view text, bool at_start, std::vector<std::int32_t>& ids,
                EncodeStats& stats) const override;
  Status encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& ids,
                      EncodeStats& stats) const override;

 private:
  Parts parts_;
};

// Priority of a score: the order of the floats turned around. REQUIRES: not a NaN.
std::uint32_t priority_of_score(float score);

// The byte that a token's spelling names: exactly "<0x", two hexadecimal digits, ">".
std::optional<std::uint8_t> byte_of_spelling(std::string_view spelling);

// Collects a vocabulary for SentencePieceBpe, one call per id in order.
class SentencePieceBuilder {
 public:
  SentencePieceBuilder(std::size_t size, std::string subject);

  // `spelling` with plain spaces. Errors: malformed (a NaN score, a byte token that names no byte).
  Status add(std::string_view spelling, float score, TokenKind kind);

  // REQUIRES: add() was called `size` times.
  std::shared_ptr<Tokenizer::Data> take(bool space_first);

 private:
  std::shared_ptr<Tokenizer::Data> data_;
  SentencePieceBpe::Parts parts_;
  std::string subject_;
  std::int32_t next_ = 0;
};

}  // namespace plumb::text
