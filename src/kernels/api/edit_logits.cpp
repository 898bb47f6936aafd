#include "kernels/api/edit_logits.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const EditLogitsArgs& a) {
  return ArgCheck(EditLogitsArgs::kName)
      .present("logits", a.logits)
      .present("edits", a.edits)
      .present("offsets", a.offsets)
      .positive("edits_limit", a.edits_limit)
      .positive("vocab", a.vocab)
      .rows(a.rows)
      .done();
}

// The offsets alone: how many edits a step has is in its data, and a step without any declares next to nothing.
device::Cost cost(const EditLogitsArgs& a) { return {.bytes_read = (static_cast<std::uint64_t>(a.rows) + 1) * 4, .bytes_written = 0, .flops = 0}; }

}  // namespace plumb::kernels
