// A vocabulary as plain data, between the files it is read from and written to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb::app {

// Token types as GGUF numbers them.
enum class TokenType : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct VocabularyData {
  std::string model = "gpt2";            // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre = "gpt-4o";            // tokenizer.ggml.pre; empty with "llama"
  std::vector<std::string> tokens;       // by id; byte-level ones in the byte-level alphabet
  std::vector<TokenType> types;          // by id
  std::vector<float> scores;             // by id; "llama" only
  std::vector<std::string> merges;       // "left right", by rank
  std::optional<bool> add_bos;           // absent: what readers of `model` assume
  std::int64_t bos = -1;                 // -1: none
  std::int64_t eos = -1;                 // the token that ends a text; further ones end one by their names
  std::int64_t pad = -1;
  std::vector<std::int64_t> all_eos;     // for generation_config.json
};

}  // namespace plumb::app
