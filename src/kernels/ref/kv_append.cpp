#include "kernels/ref/kv_page.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const KvAppendArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.sequences[r] == -1) continue;
    const std::int64_t page = page_of(a.kv, a.sequences[r], a.positions[r]);
    if (page < 0) continue;
    for (std::int32_t h = 0; h < a.kv.kv_heads; ++h) {
      const std::int64_t from = (r * a.kv.kv_heads + h) * a.kv.head_dim;
      const std::int64_t row = a.positions[r] % a.kv.page_rows;
      kv_store(a.kv, a.kv.k.get(), page, h, row, a.k.get() + from);
      kv_store(a.kv, a.kv.v.get(), page, h, row, a.v.get() + from);
    }
  }
}

}  // namespace plumb::kernels
