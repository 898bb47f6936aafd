#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels {

void reference(const EmbedArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    std::int32_t token = a.tokens[r];
    if (a.sources[r] >= 0) token = a.sources[r] < a.relay_cells ? a.relay[a.sources[r]] : 0;
    if (token < 0 || token >= a.table.rows) token = 0;
    const std::vector<double> row = weight_row(a.table, 0, token);
    for (std::int64_t i = 0; i < a.table.cols; ++i) a.out[r * a.table.cols + i] = static_cast<float>(row[i]);
  }
}

}  // namespace plumb::kernels
