// llama2.c's model and tokenizer files to a `llama` GGUF file in float32.
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/parse_limits.h"
#include "base/status.h"
#include "conversion.h"
#include "convert_fill.h"
#include "gpt_oss_gguf.h"
#include "text/sentencepiece.h"
#include "text/vocab_source.h"
#include "vocabulary.h"

namespace plumb::app {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, how SentencePiece vocabularies spell a space
constexpr double kNormEps = 1e-5;                    // of llama2.c; its file does not say
constexpr float kTheta = 10000;

struct Header {
  std::uint64_t dim = 0, ffn = 0, layers = 0, heads = 0, kv_heads = 0, vocab = 0, positions = 0;
  bool tied = true;
  std::uint64_t head_dim() const { return dim / heads; }
};

constexpr std::size_t kHeaderBytes = 28;

Result<Header> read_header(std::span<const std::byte> model, const std::string& path) {
  if (model.size() < kHeaderBytes) {
    return fail(ErrorCode::truncated, "a llama2.c header is 28 bytes", path, "bytes", std::to_string(model.size()));
  }
  std::array<std::int32_t, 7> raw{};
  std::memcpy(raw.data(), model.data(), kHeaderBytes);
  Header h;
  h.tied = raw[5] > 0;
  if (raw[5] != INT32_MIN) raw[5] = std::abs(raw[5]);
  // Far above any model, far below what could wrap.
  constexpr std::array<std::pair<const char*, std::int32_t>, 7> kFields = {{{"dim", 1 << 20}, {"hidden_dim", 1 << 20}, {"n_layers", 4096},
                                                                            {"n_heads", 4096}, {"n_kv_heads", 4096},
                                                                            {"vocab_size", 1 << 24}, {"seq_len", 1 << 24}}};
  const std::array<std::uint64_t*, 7> fields = {&h.dim, &h.ffn, &h.layers, &h.heads, &h.kv_heads, &h.vocab, &h.positions};
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] < 1 || raw[i] > kFields[i].second) {
      return fail(ErrorCode::malformed, "must be from 1 to " + std::to_string(kFields[i].second) + ": is this a llama2.c file?", path,
                  kFields[i].first, std::to_string(raw[i]));
    }
    *fields[i] = static_cast<std::uint64_t>(raw[i]);
  }
  if (h.dim % h.heads != 0 || h.heads % h.kv_heads != 0 || h.head_dim() % 2 != 0) {
    return fail(ErrorCode::malformed, "dim must be a multiple of n_heads, that of n_kv_heads, and a head's width even", path, "n_heads",
                std::to_string(h.heads));
  }
  return h;
}

// One block of the file: `layers` matrices one after another (1 for what is not per layer).
struct Part {
  const char* name;  // what follows "blk.N.", or the whole name
  std::uint64_t layers;
  std::vector<std::uint64_t> shape;
  const char* origin;  // llama2.c's own name
};

// File order of the legacy layout: each kind of weight for all layers together.
std::vector<Part> parts_of(const Header& h) {
  const std::uint64_t kv = h.kv_heads * h.head_dim();
  std::vector<Part> parts = {{"token_embd.weight", 0, {h.vocab, h.dim}, "token_embedding_table"},
                             {"attn_norm.weight", h.layers, {h.dim}, "rms_att_weight"},
                             {"attn_q.weight", h.layers, {h.dim, h.dim}, "wq"},
                             {"attn_k.weight", h.layers, {kv, h.dim}, "wk"},
                             {"attn_v.weight", h.layers, {kv, h.dim}, "wv"},
                             {"attn_output.weight", h.layers, {h.dim, h.dim}, "wo"},
                             {"ffn_norm.weight", h.layers, {h.dim}, "rms_ffn_weight"},
                             {"ffn_gate.weight", h.layers, {h.ffn, h.dim}, "w1"},
                             {"ffn_down.weight", h.layers, {h.dim, h.ffn}, "w2"},
                             {"ffn_up.weight", h.layers, {h.ffn, h.dim}, "w3"},
                             {"output_norm.weight", 0, {h.dim}, "rms_final_weight"},
                             // Tables of the rotation, which readers compute.
                             {nullptr, 0, {h.positions, h.head_dim()}, "freq_cis"}};
  if (!h.tied) parts.push_back({"output.weight", 0, {h.vocab, h.dim}, "wcls"});
  return parts;
}

Status add_tensors(const Header& h, std::span<const std::byte> model, const std::string& path, Conversion& out) {
  std::uint64_t at = kHeaderBytes;
  for (const Part& part : parts_of(h)) {
    const std::uint64_t bytes = *tensor_bytes(DType::f32, part.shape);  // bounded by read_header
    for (std::uint64_t layer = 0; layer < std::max(part.layers, std::uint64_t{1}); ++layer, at += bytes) {
      const std::string origin = part.layers == 0 ? part.origin : part.origin + ("[" + std::to_string(layer) + "]");
      if (at > model.size() || bytes > model.size() - at) {
        return fail(ErrorCode::truncated, "the file ends inside a tensor of " + std::to_string(bytes) + " bytes", path, origin,
                    std::to_string(model.size()));
      }
      if (part.name == nullptr) continue;
      const std::string name = part.layers == 0 ? part.name : "blk." + std::to_string(layer) + "." + part.name;
      out.add({name, DType::f32, part.shape, 4, element_fill({model.subspan(at, bytes), DType::f32, 1, 0}, DType::f32, nullptr)},
              {origin, DType::f32, "copied"});
    }
  }
  if (at != model.size()) {
    return fail(ErrorCode::malformed, "the header stands for " + std::to_string(at) + " bytes", path, "bytes", std::to_string(model.size()));
  }
  return {};
}

// tokenizer.bin has been accepted by tokenizer_from_llama2c: int32 longest token, then float score, int32 length, bytes.
VocabularyData vocabulary_of(std::span<const std::byte> file) {
  VocabularyData out;
  out.model = "llama";
  out.pre.clear();
  for (std::size_t at = 4; at < file.size();) {
    float score = 0;
    std::int32_t length = 0;
    std::memcpy(&score, file.data() + at, 4);
    std::memcpy(&length, file.data() + at + 4, 4);
    const std::string_view spelling(reinterpret_cast<const char*>(file.data()) + at + 8, static_cast<std::size_t>(length));
    at += 8 + static_cast<std::size_t>(length);
    const std::size_t id = out.tokens.size();
    TokenType type = text::byte_of_spelling(spelling).has_value() ? TokenType::byte : TokenType::normal;
    std::string token;
    for (const char c : spelling) token += c == ' ' ? kSpace : std::string_view(&c, 1);
    if (id < 3) {  // spelled with line breaks around them in the file
      token = std::array{"<unk>", "<s>", "</s>"}[id];
      type = id == 0 ? TokenType::unknown : TokenType::control;
    }
    out.tokens.push_back(std::move(token));
    out.types.push_back(type);
    out.scores.push_back(score);
  }
  out.bos = 1;
  out.eos = 2;
  return out;
}

void add_keys(const Header& h, const ConvertOptions& options, format::GgufKeys& keys) {
  const auto count = [&](const char* key, std::uint64_t value) { keys.add(std::string("llama.") + key, static_cast<std::uint32_t>(value)); };
  keys.add_string("general.architecture", "llama");
  keys.add_string("general.type", "model");
  keys.add_string("general.name", options.name);
  keys.add("general.file_type", options.file_type.value_or(gguf_file_type(DType::f32)));
  if (options.file_type.has_value()) keys.add("general.quantization_version", kGgufQuantizationVersion);
  count("block_count", h.layers);
  count("context_length", h.positions);
  count("embedding_length", h.dim);
  count("feed_forward_length", h.ffn);
  count("attention.head_count", h.heads);
  count("attention.head_count_kv", h.kv_heads);
  count("rope.dimension_count", h.head_dim());
  count("vocab_size", h.vocab);
  keys.add("llama.attention.layer_norm_rms_epsilon", static_cast<float>(kNormEps));
  keys.add("llama.rope.freq_base", kTheta);
}

}  // namespace

Result<Conversion> convert_llama2c(std::span<const std::byte> model, const std::string& model_path,
                                   std::span<const std::byte> tokenizer, const std::string& tokenizer_path,
                                   const ConvertOptions& options) {
  PLUMB_ASSIGN(const Header header, read_header(model, model_path));
  Conversion out;
  out.family = "llama";
  PLUMB_TRY(add_tensors(header, model, model_path, out));
  const std::string_view tokenizer_bytes(reinterpret_cast<const char*>(tokenizer.data()), tokenizer.size());
  PLUMB_ASSIGN(const text::Tokenizer checked, text::tokenizer_from_llama2c(tokenizer_bytes, tokenizer_path));
  if (static_cast<std::uint64_t>(checked.vocab_size()) != header.vocab) {
    return fail(ErrorCode::malformed, "the model has " + std::to_string(header.vocab) + " tokens", tokenizer_path, "tokens",
                std::to_string(checked.vocab_size()));
  }
  add_keys(header, options, out.keys);
  const VocabularyData vocabulary = vocabulary_of(tokenizer);
  add_vocabulary_keys(out.keys, vocabulary);
  out.tokens = vocabulary.tokens.size();
  return out;
}

}  // namespace plumb::app
