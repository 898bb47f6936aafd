// How far one computation's predictions are from another's: a model's from those of the model it was made from, or a representation's from
// the exact path of the same model.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plumb/plumb.h"
#include "plumb/status.h"

namespace plumb::app {

struct KlOptions {
  std::string text;           // file of little-endian 16-bit token ids; empty: a text that the source itself writes
  std::int32_t tokens = 4096; // positions compared, in whole windows
  std::int32_t window = 512;
  EngineOptions engine;       // what both are opened with; forms, lengths and request limits are this measurement's own
  std::string act = "f32", kv = "f32";  // of the result; the source is always computed in float32
  std::string tokens_option = "--kl-tokens", window_option;  // how the user said `tokens` and `window`, for errors
  bool identify = false;      // say what was measured: digest and device
  bool quiet = false;
};

// Over the positions of the text.
struct KlReport {
  std::string text;         // what it was measured on, for people
  std::string act, kv;      // of the result
  std::string digest, device, isa;    // of the result, with `identify`
  std::int32_t threads = 0;
  std::uint64_t positions = 0;
  double mean = 0, p99 = 0, max = 0;  // KL(source || result), nats
  double top1_flips = 0;    // share of the positions
  double source_nats = 0;   // per token of the text
  double result_nats = 0;
};

// Opens both models and compares them window by window: the source's logits of one window are all that is kept.
// Errors: those of opening and generating; invalid_argument for a text or a number of tokens shorter than a window, and for a window whose
// logits would take more than 2 GiB; shape_mismatch for other vocabularies; those of a file that changed meanwhile; cancelled.
Result<KlReport> measure_kl(const std::string& source, const std::string& result, const KlOptions& options);

std::string kl_text(const KlReport& report);
nlohmann::ordered_json kl_json(const KlReport& report);

}  // namespace plumb::app
