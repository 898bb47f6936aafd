// The list of ops. Adding one is a header in api/, a reference in ref/ and a line here.
#include "kernels/ref/reference.h"
#include "kernels/table.h"

namespace plumb::kernels {
namespace {

template <class Args>
constexpr OpDesc kDesc = describe_op<Args>();

}  // namespace

template <class Args>
const OpDesc& op() {
  return kDesc<Args>;
}

// The list.
#define PLUMB_OPS(X) \
  X(AdvanceArgs)     \
  X(AttentionArgs)   \
  X(DigestArgs)      \
  X(EditLogitsArgs)  \
  X(EmbedArgs)       \
  X(GatedDeltaArgs)  \
  X(GatherArgs)      \
  X(GluArgs)         \
  X(KvAppendArgs)    \
  X(MaskLogitsArgs)  \
  X(MatmulArgs)      \
  X(MoeCombineArgs)  \
  X(MoeDownArgs)     \
  X(MoeGluArgs)      \
  X(MoeGroupArgs)    \
  X(PackArgs)        \
  X(QuantizeArgs)    \
  X(RmsNormArgs)     \
  X(RopeArgs)        \
  X(RopeTableArgs)   \
  X(RouteArgs)       \
  X(SampleArgs)

#define PLUMB_INSTANTIATE(Args) template const OpDesc& op<Args>();
PLUMB_OPS(PLUMB_INSTANTIATE)

std::span<const OpDesc* const> all_ops() {
#define PLUMB_LIST(Args) &kDesc<Args>,
  static constexpr const OpDesc* kList[] = {PLUMB_OPS(PLUMB_LIST)};
  return kList;
}

const OpDesc* find_op(std::string_view name) {
  for (const OpDesc* desc : all_ops()) {
    if (desc->name == name) return desc;
  }
  return nullptr;
}

}  // namespace plumb::kernels
