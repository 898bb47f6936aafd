#include "kernels/ref/kv_page.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const KvAppendArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.sequences[r] == -1) continue;
    const std::int64_t page = page_of(a.kv, a.sequences[r], a.positions[r]);
    if (page < 0) continue;
    for (std::int32_t h = 0; h < a.kv.kv_heads; ++h) {
      const std::int64_t cell = kv_cell(a.kv, page, h, a.positions[r] % a.kv.page_rows);
      for (std::int64_t d = 0; d < a.kv.head_dim; ++d) {
        const std::int64_t from = (r * a.kv.kv_heads + h) * a.kv.head_dim + d;
        reinterpret_cast<float*>(a.kv.k.get())[cell + d] = a.k[from];
        reinterpret_cast<float*>(a.kv.v.get())[cell + d] = a.v[from];
      }
    }
  }
}

}  // namespace plumb::kernels
