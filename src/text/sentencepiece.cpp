#include "text/sentencepiece.h"

#include <bit>
#include <cmath>

#include "base/check.h"
#include "text/utf8.h"

namespace plumb::text {

Status SentencePieceBpe::encode(const Vocabulary& vocabulary, std::string_view text, bool at_start,
                                std::vector<std::int32_t>& ids, EncodeStats& stats) const {
  std::string with_space;
  if (at_start && parts_.space_first) {
    with_space.reserve(text.size() + 1);
    with_space.append(" ").append(text);
    text = with_space;
  }
  ++stats.pieces;
  MergeScratch scratch;
  scratch.symbols.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const std::uint32_t length = utf8_step(text, pos).length;
    scratch.symbols.push_back({vocabulary.find(text.substr(pos, length)), static_cast<std::uint32_t>(pos), length});
    pos += length;
  }
  const auto lookup = [&](const Symbol& left, const Symbol& right) -> Candidate {
    const std::int32_t id = vocabulary.find(text.substr(left.start, left.length + right.length));
    if (id == Vocabulary::kNone) return {};
    return {parts_.priorities[static_cast<std::size_t>(id)], id};
  };
  merge_symbols(scratch, lookup, stats);
  for (std::int32_t i = 0; i >= 0;) {
    const Symbol& symbol = scratch.symbols[static_cast<std::size_t>(i)];
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      PLUMB_TRY(encode_bytes(vocabulary, text.substr(symbol.start, symbol.length), ids, stats));
    }
    i = symbol.next;
  }
  return {};
}

Status SentencePieceBpe::encode_bytes(const Vocabulary& /*vocabulary*/, std::string_view bytes, std::vector<std::int32_t>& ids,
                                      EncodeStats& /*stats*/) const {
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (parts_.bytes[byte] == Vocabulary::kNone) {
      return fail(ErrorCode::unsupported, "the vocabulary has no token for this byte", "text", "byte", std::to_string(byte));
    }
    ids.push_back(parts_.bytes[byte]);
  }
  return {};
}

std::uint32_t priority_of_score(float score) {
  PLUMB_CHECK(!std::isnan(score));
  if (score == 0.0F) score = 0.0F;  // -0 and 0 are one score
  const auto bits = std::bit_cast<std::uint32_t>(score);
  // Ascending order of floats as unsigned numbers: flip all bits of negatives, the sign bit of the others. Then turn it.
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

std::optional<std::uint8_t> byte_of_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  int value = 0;
  for (const char c : spelling.substr(3, 2)) {
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return static_cast<std::uint8_t>(value);
}

SentencePieceBuilder::SentencePieceBuilder(std::size_t size, std::string subject)
    : data_(std::make_shared<Tokenizer::Data>()), subject_(std::move(subject)) {
  data_->vocabulary = Vocabulary(size);
  data_->kinds.assign(size, TokenKind::none);
  parts_.priorities.assign(size, 0);
  parts_.bytes.fill(Vocabulary::kNone);
}

Status SentencePieceBuilder::add(std::string_view spelling, float score, TokenKind kind) {
  const std::int32_t id = next_++;
  const auto at = static_cast<std::size_t>(id);
  const std::string field = "tokens[" + std::to_string(id) + "]";
  if (std::isnan(score)) return fail(ErrorCode::malformed, "a token's score is not a number", subject_, field);
  parts_.priorities[at] = priority_of_score(score);
  data_->kinds[at] = kind;
  if (kind == TokenKind::byte) {
    const std::optional<std::uint8_t> byte = byte_of_spelling(spelling);
    if (!byte) return fail(ErrorCode::malformed, "a byte token must be spelled <0x00> to <0xFF>", subject_, field, std::string(spelling));
    const char one = static_cast<char>(*byte);
    data_->vocabulary.set(id, std::string_view(&one, 1));
    if (parts_.bytes[*byte] == Vocabulary::kNone) parts_.bytes[*byte] = id;
    return {};
  }
  data_->vocabulary.set(id, spelling);
  if ((kind == TokenKind::control || kind == TokenKind::added) && !spelling.empty()) {
    data_->added[0].add(spelling, id, kind == TokenKind::control);
  }
  return {};
}

std::shared_ptr<Tokenizer::Data> SentencePieceBuilder::take(bool space_first) {
  std::vector<bool> made_by_model(data_->kinds.size());
  for (std::size_t i = 0; i < made_by_model.size(); ++i) {
    made_by_model[i] = data_->kinds[i] == TokenKind::normal && !data_->vocabulary.bytes(static_cast<std::int32_t>(i)).empty();
  }
  data_->vocabulary.index(made_by_model);
  parts_.space_first = space_first;
  data_->drops_first_space = space_first;
  data_->model = std::make_unique<SentencePieceBpe>(std::move(parts_));
  return std::move(data_);
}

}  // namespace plumb::text
