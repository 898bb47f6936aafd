// Byte-level BPE: GPT-2, gpt-oss, Qwen, Llama 3.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "text/split_regex.h"
#include "text/text_model.h"

namespace plumb::text {

// GPT-2's split expression, which a ByteLevel pre-tokenizer with use_regex stands for.
inline constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct ByteLevelParts {
  std::vector<SplitRegex> splits;        // applied one after another, each to the pieces the last one left
  std::array<std::int32_t, 256> bytes{}; // the token of each single byte, or Vocabulary::kNone
  PairTable merges;
  bool nfc = false;                      // compose text (Unicode normal form C) before it is split
  bool ignore_merges = false;            // a piece that is a token as it stands is taken whole
};

class ByteLevelBpe final : public TextModel {
 public:
  explicit ByteLevelBpe(ByteLevelParts parts) : parts_(std::move(parts)) {}

  Status encode(const Vocabulary& vocabulary, std::string_view text, bool at_start, std::vector<std::int32_t>& ids,
                EncodeStats& stats) const override;
  Status encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& ids,
                      EncodeStats& stats) const override;

 private:
  Status encode_piece(const Vocabulary& vocabulary, std::string_view piece, MergeScratch& scratch,
                      std::vector<std::int32_t>& ids, EncodeStats& stats) const;

  ByteLevelParts parts_;
};

// Collects the merges of a byte-level vocabulary, spelled in the byte-level alphabet, in rank order.
class MergeBuilder {
 public:
  // REQUIRES: the vocabulary's reverse table is built and stays in place. `subject` and `field` go into errors.
  MergeBuilder(const Vocabulary& vocabulary, std::size_t expected, std::string subject, std::string field)
      : vocabulary_(vocabulary), table_(expected), subject_(std::move(subject)), field_(std::move(field)) {}

  // Errors: malformed when a side, or the two together, is not in the vocabulary.
  Status add(std::string_view left, std::string_view right);
  // "left right".
  Status add(std::string_view both);

  PairTable take() { return std::move(table_); }

 private:
  Error wrong(std::string_view left, std::string_view right, std::string message) const;

  const Vocabulary& vocabulary_;
  PairTable table_;
  std::string subject_;
  std::string field_;
  std::string left_;
  std::string right_;
  std::uint32_t rank_ = 0;
};

}  // namespace plumb::text
