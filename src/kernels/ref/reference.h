// The meaning of every op: scalar, in double precision, one loop per sum, on host memory with bound arguments.
//
// These are written to be read, not to be fast. Kernels are held to them by conformance_test.cpp. An index outside of its
// bound is clamped or skipped as the op's header says; nothing counts it here.
#pragma once

#include "kernels/api/ops.h"

namespace plumb::kernels {

void reference(const AdvanceArgs& a);
void reference(const AttentionArgs& a);
void reference(const DigestArgs& a);
void reference(const EditLogitsArgs& a);
void reference(const EmbedArgs& a);
void reference(const GatedDeltaArgs& a);
void reference(const GatherArgs& a);
void reference(const GluArgs& a);
void reference(const KvAppendArgs& a);
void reference(const MaskLogitsArgs& a);
void reference(const MatmulArgs& a);
void reference(const MoeCombineArgs& a);
void reference(const MoeDownArgs& a);
void reference(const MoeGluArgs& a);
void reference(const MoeGroupArgs& a);
void reference(const PackArgs& a);
void reference(const QuantizeArgs& a);
void reference(const RmsNormArgs& a);
void reference(const RopeArgs& a);
void reference(const RopeTableArgs& a);
void reference(const RouteArgs& a);
void reference(const SampleArgs& a);

// act(gate, up) of a gated feed-forward block. Shared by glu and moe_glu.
double reference_activate(const GluSpec& spec, double gate, double up);

}  // namespace plumb::kernels
