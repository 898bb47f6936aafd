// Elements of the block formats that add an offset or have several scales, one at a time and in double. Written from the layouts
// in base/blocks.h and base/super_blocks.h a second time, so that codec and reference can disagree.
#pragma once

#include <cstddef>

#include "kernels/api/weight.h"

namespace plumb::kernels {

// The value is product + offset. Kernels that keep the two apart round relative to the larger of them.
struct ElementParts {
  double product = 0;
  double offset = 0;
};

// Element k of a block of q4_1, q4_k, q5_k, q6_k, iq4_nl or nvfp4. REQUIRES: one of these, 0 <= k < traits(format).block.
ElementParts stored_element(WeightFormat format, const std::byte* block, int k);

}  // namespace plumb::kernels
