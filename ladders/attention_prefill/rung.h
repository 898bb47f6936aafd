// What the rungs of this ladder share: 64 rows of a prompt over a paged cache of f16, in the four geometries that
// src/kernels/geometry/attention_plan.cpp has rows for. See attention_decode/rung.h.
//
// The floor is arithmetic: 2 x head_dim multiply-adds for a key and a query head. At two vectors of eight a cycle and 3.7 GHz that is 59 G products a
// second (EPYC of Zen 4, where the outcomes were taken).
#pragma once

#include "attention_decode/rung.h"

namespace plumb::ladder {

inline const Sizes kPrefill{{{8, 2, 64}, {16, 4, 64}, {64, 8, 64}, {32, 8, 128}}, {256, 2048, 16384}, 64};

}  // namespace plumb::ladder
