// kv_append: new keys and values into their pages, in every form.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// One row of one head as signed bytes and their scale: `quantize`'s rounding, over the whole row.
inline void store_q8_row(const float* x, int head_dim, std::byte* codes, float* scale) {
  float largest = 0;
  bool finite = true;
  for (int d = 0; d < head_dim; ++d) {
    const float magnitude = std::fabs(x[d]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = magnitude > largest ? magnitude : largest;
  }
  if (!finite || largest < kQ8Smallest) {
    std::memset(codes, 0, static_cast<std::size_t>(head_dim));
    *scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  *scale = largest / static_cast<float>(kQ8MaxCode);
  const float inverse = static_cast<float>(kQ8MaxCode) / largest;
  for (int d = 0; d < head_dim; ++d) codes[d] = static_cast<std::byte>(static_cast<std::int8_t>(std::nearbyint(x[d] * inverse)));
}

template <KvFormat F>
void kv_append(const KvAppendArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  const KvView& kv = a.kv;
  for (std::int64_t r = lo; r < hi; ++r) {
    const std::int64_t sequence = a.sequences[r];
    const std::int64_t position = a.positions[r];
    if (sequence == -1 || !valid_row(kv, sequence, position, r, w)) continue;
    const std::int64_t page = page_of(kv, sequence, position, r, w);
    if (page < 0) continue;
    const std::int64_t row = position % kv.page_rows;
    for (int h = 0; h < kv.kv_heads; ++h) {
      const std::int64_t block = kv_block(kv, page, h);
      const std::int64_t from = (r * kv.kv_heads + h) * kv.head_dim;
      const auto store = [&](const float* x, std::byte* pool) {
        std::byte* to = pool + block + kv_row_in_block(kv, row);
        if constexpr (F == KvFormat::q8) {
          store_q8_row(x, kv.head_dim, to, reinterpret_cast<float*>(pool + block + kv_scales_in_block(kv)) + row);
        } else {
          for (int d = 0; d < kv.head_dim; d += 8) KvForm<F>::store(to + d * KvForm<F>::kBytes, load8(x + d));
        }
      };
      store(a.k.get() + from, kv.k.get());
      store(a.v.get() + from, kv.v.get());
    }
  }
}

template void kv_append<KvFormat::f32>(const KvAppendArgs&, device::Worker&);
template void kv_append<KvFormat::f16>(const KvAppendArgs&, device::Worker&);
template void kv_append<KvFormat::bf16>(const KvAppendArgs&, device::Worker&);
template void kv_append<KvFormat::q8>(const KvAppendArgs&, device::Worker&);

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
