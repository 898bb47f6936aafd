// The ops of Plumb: what each computes, on what shapes, at what cost. One header includes them all; each op has its own.
//
// An op is an args struct. It is trivially copyable, lives as plain data inside a Program (references symbolic), and is the
// very struct a kernel receives (references bound). Beside it stand three functions found by overload:
//   visit_operands(args, visitor)   every reference with its name, access and extent in bytes
//   check(args) -> Status           REQUIRES of the op: sizes and strides that fit together; blames the caller's field
//   cost(args) -> device::Cost      bytes and flops the op owes, each distinct byte once
// and `kName`. `rows` is the only field that changes from step to step; encoding sets it.
//
// Batch invariance: row r of an output depends on row r of the inputs only (gated_delta: and on earlier rows of the same
// sequence), and is bit-equal whatever `rows` is.
#pragma once

#include "kernels/api/advance.h"
#include "kernels/api/attention.h"
#include "kernels/api/digest.h"
#include "kernels/api/edit_logits.h"
#include "kernels/api/embed.h"
#include "kernels/api/gated_delta.h"
#include "kernels/api/gather.h"
#include "kernels/api/glu.h"
#include "kernels/api/kv_append.h"
#include "kernels/api/mask_logits.h"
#include "kernels/api/matmul.h"
#include "kernels/api/moe.h"
#include "kernels/api/pack.h"
#include "kernels/api/quantize.h"
#include "kernels/api/rms_norm.h"
#include "kernels/api/rope.h"
#include "kernels/api/route.h"
#include "kernels/api/sample.h"
