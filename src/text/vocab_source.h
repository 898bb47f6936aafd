// Tokenizers from vocabularies that are already lists: GGUF metadata, and llama2.c's file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/parse_limits.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace plumb::text {

// What GGUF says under tokenizer.ggml.*; the views need to live only during the call. An empty span is an absent key.
struct VocabSource {
  std::string subject;                             // the file, for errors
  std::string_view model;                          // "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string_view pre = {};                       // for gpt2: which split expression; known_pre_tokenizers() lists them
  std::span<const std::string_view> tokens = {};
  std::span<const float> scores = {};              // llama: one per token
  std::span<const std::int32_t> token_types = {};  // 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte
  std::span<const std::string_view> merges = {};   // gpt2: "left right" in rank order
  std::optional<std::int32_t> bos_id = std::nullopt;
  std::optional<std::int32_t> eos_id = std::nullopt;
  std::optional<bool> add_bos = std::nullopt;      // absent: yes for llama, no for gpt2
  bool add_space_prefix = true;                    // llama
};

// Errors: unsupported (model or pre is unknown, or a token type), malformed, limit_exceeded.
Result<Tokenizer> tokenizer_from_vocab(const VocabSource& source, const TokenizerConfig& config = {},
                                       const ParseLimits& limits = {});

// The names `pre` may have.
std::span<const std::string_view> known_pre_tokenizers();

// The split expression that a name stands for, as tokenizer.json spells it; empty for an unknown name. Programs that convert
// between the two containers need it.
std::string_view split_of_pre_tokenizer(std::string_view name);

// llama2.c's tokenizer file: int32 longest token, then for each token float score, int32 length, bytes (little-endian).
// Ids 0, 1 and 2 are <unk>, <s> and </s>, whatever they are spelled. Errors: truncated, malformed, limit_exceeded.
Result<Tokenizer> tokenizer_from_llama2c(std::string_view bytes, const std::string& subject, const TokenizerConfig& config = {},
                                         const ParseLimits& limits = {});

}  // namespace plumb::text
