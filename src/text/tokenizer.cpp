#include "text/tokenizer.h"

#include "text/tokenizer_data.h"
#include "text/utf8.h"

namespace plumb::text {
namespace {

// Text between added tokens: valid runs go to the model, the bytes between them stand alone.
Status encode_plain(const Tokenizer::Data& data, std::string_view segment, bool& at_start, std::vector<std::int32_t>& ids,
                    EncodeStats& stats) {
  while (!segment.empty()) {
    const std::size_t valid = utf8_valid_prefix(segment);
    if (valid > 0) {
      PLUMB_TRY(data.model->encode(data.vocabulary, segment.substr(0, valid), at_start, ids, stats));
      segment.remove_prefix(valid);
      at_start = false;
    }
    std::size_t broken = 0;
    while (broken < segment.size()) {
      const Utf8Step step = utf8_step(segment, broken);
      if (step.valid) break;
      broken += step.length;
    }
    if (broken > 0) {
      PLUMB_TRY(data.model->encode_bytes(data.vocabulary, segment.substr(0, broken), ids, stats));
      segment.remove_prefix(broken);
      at_start = false;
    }
  }
  return {};
}

// Takes the added tokens of one pass out of the text; the rest goes to the next pass. `at_start` holds until the first token
// that is not a control token, for encoding as for decoding.
Status encode_pass(const Tokenizer::Data& data, std::size_t pass, std::string_view text, bool& at_start, bool specials,
                   std::vector<std::int32_t>& ids, EncodeStats& stats) {
  if (pass == data.added.size()) return encode_plain(data, text, at_start, ids, stats);
  if (data.added[pass].empty()) return encode_pass(data, pass + 1, text, at_start, specials, ids, stats);
  std::size_t from = 0;
  while (from < text.size()) {
    const AddedTokens::Match match = data.added[pass].find(text, from, specials);
    PLUMB_TRY(encode_pass(data, pass + 1, text.substr(from, match.begin - from), at_start, specials, ids, stats));
    if (match.id >= 0) {
      ids.push_back(match.id);
      at_start = at_start && data.kinds[static_cast<std::size_t>(match.id)] == TokenKind::control;
    }
    from = match.end;
  }
  return {};
}

}  // namespace

std::int32_t Tokenizer::Data::added_id(std::string_view content) const {
  for (const AddedTokens& tokens : added) {
    const AddedTokens::Match match = tokens.find(content, 0, true);
    if (match.id >= 0 && match.begin == 0 && match.end == content.size()) return match.id;
  }
  return Vocabulary::kNone;
}

Status apply_config(Tokenizer::Data& data, const TokenizerConfig& config, const std::string& subject) {
  const auto check = [&](std::int32_t id, const char* field) -> Status {
    if (data.vocabulary.has(id)) return {};
    return fail(ErrorCode::invalid_argument, "names an id that has no token", subject, field, std::to_string(id));
  };
  if (config.bos_id) {
    PLUMB_TRY(check(*config.bos_id, "bos_token_id"));
    data.bos = config.bos_id;
  }
  if (!config.eos_ids.empty()) {
    for (const std::int32_t id : config.eos_ids) PLUMB_TRY(check(id, "eos_token_id"));
    data.eos = config.eos_ids;
  }
  if (config.add_bos) data.adds_bos = *config.add_bos;
  if (data.adds_bos && !data.bos) {
    return fail(ErrorCode::invalid_argument, "asks for a first token and names none", subject, "add_bos_token");
  }
  return {};
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                                    EncodeStats* stats) const {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::limit_exceeded, "a text may be " + std::to_string(kMaxTextBytes) + " bytes long", "text", "bytes",
                std::to_string(text.size()));
  }
  std::vector<std::int32_t> ids;
  EncodeStats local;
  if (options.add_bos) {
    if (!data_->bos) return fail(ErrorCode::invalid_argument, "this tokenizer has no first token", "encode", "add_bos");
    ids.push_back(*data_->bos);
  }
  bool at_start = true;
  PLUMB_TRY(encode_pass(*data_, 0, text, at_start, options.parse_special, ids, local));
  if (stats != nullptr) {
    stats->pieces += local.pieces;
    stats->pair_lookups += local.pair_lookups;
    stats->merges += local.merges;
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, const DecodeOptions& options) const {
  std::string out;
  bool at_start = data_->drops_first_space && !options.continues;
  for (const std::int32_t id : ids) {
    if (!has_token(id)) {
      out.append(kReplacement);
      at_start = false;
      continue;
    }
    const bool special = is_special(id);
    if (special && options.skip_special) continue;
    std::string_view bytes = token_bytes(id);
    if (at_start && !special) {
      const bool verbatim = data_->kinds[static_cast<std::size_t>(id)] == TokenKind::added;
      if (!verbatim && bytes.starts_with(' ')) bytes.remove_prefix(1);
      at_start = false;
    }
    out.append(bytes);
  }
  return out;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const { return data_->vocabulary.bytes(id); }
bool Tokenizer::has_token(std::int32_t id) const { return data_->vocabulary.has(id); }
std::int32_t Tokenizer::vocab_size() const { return static_cast<std::int32_t>(data_->vocabulary.size()); }

bool Tokenizer::is_special(std::int32_t id) const {
  return has_token(id) && data_->kinds[static_cast<std::size_t>(id)] == TokenKind::control;
}

std::optional<std::int32_t> Tokenizer::special_id(std::string_view content) const {
  const std::int32_t id = data_->added_id(content);
  if (id == Vocabulary::kNone) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view bytes) const {
  const std::int32_t id = data_->vocabulary.find(bytes);
  if (id < 0) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Tokenizer::bos_id() const { return data_->bos; }
std::span<const std::int32_t> Tokenizer::eos_ids() const { return data_->eos; }
bool Tokenizer::adds_bos() const { return data_->adds_bos; }
bool Tokenizer::drops_first_space() const { return data_->drops_first_space; }

}  // namespace plumb::text
