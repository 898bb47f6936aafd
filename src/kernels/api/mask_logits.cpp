#include "kernels/api/mask_logits.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const MaskLogitsArgs& a) {
  return ArgCheck(MaskLogitsArgs::kName)
      .present("logits", a.logits)
      .present("masks", a.masks)
      .present("mask_of", a.mask_of)
      .positive("mask_count", a.mask_count)
      .positive("vocab", a.vocab)
      .rows(a.rows)
      .done();
}

// As edit_logits: which rows are masked is in the data, and a step without constraints moves next to nothing.
device::Cost cost(const MaskLogitsArgs& a) { return {.bytes_read = static_cast<std::uint64_t>(a.rows) * 4, .bytes_written = 0, .flops = 0}; }

}  // namespace plumb::kernels
