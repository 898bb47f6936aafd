// Weight and activation rows as doubles, through the scalar codecs of base/blocks.h. Exact: every stored value is a double.
#pragma once

#include <vector>

#include "kernels/api/q8_rows.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

// The w.cols elements of row `row` of expert `expert`.
std::vector<double> weight_row(const WeightView& w, std::int64_t expert, std::int64_t row);

// What rounding of a product with that row is relative to: the elements' magnitudes; for packed formats with an offset, whose kernels
// add it apart from the rest, those of both parts together.
std::vector<double> weight_magnitudes(const WeightView& w, std::int64_t expert, std::int64_t row);

// Row `row` of the activations of a product: from whichever of the two is given.
std::vector<double> activation_row(const Ref<const float>& in, const Ref<const std::byte>& in_q8, std::int64_t row, std::int64_t cols);

}  // namespace plumb::kernels
