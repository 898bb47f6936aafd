#include "text/byte_level_bpe.h"

#include "text/byte_level.h"
#include "text/nfc.h"

namespace plumb::text {

Status ByteLevelBpe::encode(const Vocabulary& vocabulary, std::string_view text, bool /*at_start*/,
                            std::vector<std::int32_t>& ids, EncodeStats& stats) const {
  std::string composed;
  if (parts_.nfc) {
    composed = to_nfc(text);
    text = composed;
  }
  std::vector<Piece> pieces{{0, static_cast<std::uint32_t>(text.size())}};
  std::vector<Piece> parts;
  for (const SplitRegex& split : parts_.splits) {
    parts.clear();
    PLUMB_TRY(split.split(text, pieces, parts));
    pieces.swap(parts);
  }
  MergeScratch scratch;
  for (const Piece& piece : pieces) {
    PLUMB_TRY(encode_piece(vocabulary, text.substr(piece.begin, piece.end - piece.begin), scratch, ids, stats));
  }
  return {};
}

Status ByteLevelBpe::encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& ids,
                                  EncodeStats& stats) const {
  MergeScratch scratch;
  return encode_piece(vocabulary, bytes, scratch, ids, stats);
}

Status ByteLevelBpe::encode_piece(const Vocabulary& vocabulary, std::string_view piece, MergeScratch& scratch,
                                  std::vector<std::int32_t>& ids, EncodeStats& stats) const {
  ++stats.pieces;
  if (parts_.ignore_merges || piece.size() == 1) {
    const std::int32_t whole = vocabulary.find(piece);
    if (whole != Vocabulary::kNone) {
      ids.push_back(whole);
      return {};
    }
  }
  scratch.symbols.resize(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(piece[i]);
    if (parts_.bytes[byte] == Vocabulary::kNone) {
      return fail(ErrorCode::unsupported, "the vocabulary has no token for this byte", "text", "byte", std::to_string(byte));
    }
    scratch.symbols[i] = Symbol{parts_.bytes[byte], static_cast<std::uint32_t>(i), 1};
  }
  merge_symbols(
      scratch, [this](const Symbol& left, const Symbol& right) { return parts_.merges.find(left.id, right.id); }, stats);
  for (std::int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<std::size_t>(i)].next) {
    ids.push_back(scratch.symbols[static_cast<std::size_t>(i)].id);
  }
  return {};
}

Error MergeBuilder::wrong(std::string_view left, std::string_view right, std::string message) const {
  return fail(ErrorCode::malformed, std::move(message), subject_, field_ + "[" + std::to_string(rank_) + "]",
              std::string(left) + " " + std::string(right));
}

Status MergeBuilder::add(std::string_view left, std::string_view right) {
  if (!byte_level_bytes(left, left_) || !byte_level_bytes(right, right_)) {
    return wrong(left, right, "a merge is not spelled in the byte-level alphabet");
  }
  const std::int32_t left_id = vocabulary_.find(left_);
  const std::int32_t right_id = vocabulary_.find(right_);
  left_ += right_;
  const std::int32_t merged = vocabulary_.find(left_);
  if (left_id < 0 || right_id < 0 || merged < 0) {
    return wrong(left, right, "a merge needs both its sides and its result in the vocabulary");
  }
  table_.insert(left_id, right_id, rank_++, merged);
  return {};
}

Status MergeBuilder::add(std::string_view both) {
  const std::size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
    return wrong(both, {}, "a merge is two tokens with a space between them");
  }
  return add(both.substr(0, space), both.substr(space + 1));
}

}  // namespace plumb::text
