#include "kernels/api/kv_view.h"

#include <bit>

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

const char* to_string(KvFormat format) {
  switch (format) {
    case KvFormat::f32: return "f32";
    case KvFormat::f16: return "f16";
    case KvFormat::bf16: return "bf16";
    case KvFormat::q8: return "q8";
  }
  return "unknown";
}

Result<KvFormat> parse_kv_format(const char* field, const std::string& name) {
  std::string known;
  for (const KvFormat format : kKvFormats) {
    if (name == to_string(format)) return format;
    known += (known.empty() ? "" : ", ") + std::string(to_string(format));
  }
  return fail(ErrorCode::invalid_argument, "must be one of " + known, {}, field, name);
}

Status check_kv(const char* op, const KvView& kv) {
  return ArgCheck(op)
      .present("kv.k", kv.k)
      .present("kv.v", kv.v)
      .present("kv.table", kv.table)
      .positive("kv.pages", kv.pages)
      .that(kv.page_rows > 0 && std::has_single_bit(static_cast<std::uint32_t>(kv.page_rows)), "kv.page_rows", kv.page_rows,
            "be a power of two")
      .positive("kv.table_pages", kv.table_pages)
      .positive("kv.sequences", kv.sequences)
      .positive("kv.kv_heads", kv.kv_heads)
      .that(kv.head_dim > 0 && kv.head_dim % 8 == 0 && kv.head_dim <= kMaxHeadDim, "kv.head_dim", kv.head_dim,
            "be a multiple of 8 up to kMaxHeadDim")
      .that(kv.window >= 0, "kv.window", kv.window, "not be negative")
      .done();
}

}  // namespace plumb::kernels
