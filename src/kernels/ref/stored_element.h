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

// The unsigned code of element k of such a block, and the block's scales as the packed formats keep
// them: their fields in order, two bytes or one each (weight.h).
int stored_code(WeightFormat format, const std::byte* block, int k);
void stored_scales(WeightFormat format, const std::byte* block, std::byte* fields);

// Element k of block `index` of a row of a packed matrix in one of iq4_nl_r8, q4_1_r8, nvfp4_r8, q4_k_r8, q5_k_r8 or q6_k_r8.
ElementParts packed_element(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t index, int k);

}  // namespace plumb::kernels
