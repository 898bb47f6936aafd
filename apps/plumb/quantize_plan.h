// Which tensors of a conversion are quantised, and to what.
#pragma once

#include <string>
#include <vector>

#include "conversion.h"
#include "plumb/status.h"

namespace plumb::app {

// PATTERN=FORMAT: `*` and `?` in the pattern, matched with GGUF names.
struct TensorChoice {
  std::string pattern;
  DType type = DType::f32;
};

struct QuantizePlan {
  std::optional<DType> matrices;      // --quantize
  std::vector<TensorChoice> tensors;  // --tensor; the last that matches decides
};

// Reads "PATTERN=FORMAT". Error: a usage error, with the formats there are.
Result<TensorChoice> parse_tensor_choice(const std::string& text);

// Rewrites the jobs of the plan's tensors: each makes its old bytes, piece by piece, and quantises them, and its error is kept.
//
// Matrices are what the plan is about: tensors named *.weight with two or more dimensions. Routers (ffn_gate_inp) are only taken
// when a pattern names them; vectors never. A matrix that is quantised already is requantised, with a warning, when the new format is
// narrower or a pattern names it, and kept otherwise. Rows that are no whole blocks get the format's substitute (format::quantize).
// A format with a full scale adds NAME.scale, the factors of its matrices. Factors that the source has are multiplied in.
// Errors: invalid_argument for a pattern that no matrix matches; unsupported for a source type that cannot be read.
Status apply(const QuantizePlan& plan, const std::string& subject, Conversion& conversion);

}  // namespace plumb::app
