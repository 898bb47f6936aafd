// A weight row as doubles, through the scalar codecs of base/blocks.h. Exact: every stored value is a double.
#pragma once

#include <vector>

#include "kernels/api/weight.h"

namespace plumb::kernels {

// The w.cols elements of row `row` of expert `expert`.
std::vector<double> weight_row(const WeightView& w, std::int64_t expert, std::int64_t row);

}  // namespace plumb::kernels
