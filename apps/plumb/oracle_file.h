// Oracle files: reference outputs of one model for a few prompts, as a safetensors file. docs/FORMATS.md describes it.
//
//   p{i}.ids [T] i32              the prompt
//   p{i}.positions [P] i32        where logits were kept, ascending
//   p{i}.logits [P][vocab] f32    next-token logits there
//   p{i}.greedy [G] i32           the greedy continuation
//   p{i}.margin [G] f32           largest minus second largest logit at each of its steps
//   p{i}.routes [T][L][K] i32     optional: experts of each prompt position in each routed layer, falling logit, -1 beyond top_k
//   p{i}.route_margin [T][L] f32  optional: the router's last taken logit minus the next
// and metadata, all strings: what made it and how that was itself checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "plumb/status.h"

namespace plumb::app {

// One prompt and what a model made of it: read from an oracle, or computed (model_outputs.h).
struct PromptOutputs {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<float> logits;
  std::vector<std::int32_t> greedy;
  std::vector<float> margin;
  std::int32_t routed_layers = 0;  // L
  std::int32_t top_k = 0;          // K
  std::vector<std::int32_t> routes;
  std::vector<float> route_margin;
};

class OracleFile {
 public:
  // Errors: those of Checkpoint::open; missing_tensor without p0.ids; malformed, shape_mismatch naming tensor, expected and found.
  static Result<OracleFile> open(const std::string& path);

  std::size_t size() const { return prompts_; }
  // Everything of prompt i, checked. REQUIRES: i < size().
  Result<PromptOutputs> prompt(std::size_t i, std::int32_t vocab) const;
  // Tokens of prompt i and of its continuation. REQUIRES: i < size().
  std::int32_t prompt_length(std::size_t i) const;
  std::int32_t greedy_length(std::size_t i) const;

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& digest() const { return digest_; }  // XXH3-128 of the file
  const std::string& path() const { return checkpoint_.path(); }

 private:
  explicit OracleFile(format::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  format::Checkpoint checkpoint_;
  std::map<std::string, std::string> metadata_;
  std::string digest_;
  std::size_t prompts_ = 0;
};

// Writes such a file. REQUIRES: prompts of one vocabulary and one routing geometry. Errors: those of format::create_safetensors.
Status write_oracle(const std::string& path, const std::vector<PromptOutputs>& prompts, std::int32_t vocab,
                    const std::map<std::string, std::string>& metadata);

}  // namespace plumb::app
