// Attention by vectors of sixteen; kv_append is avx2's. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__x86_64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#define PLUMB_CPU_ISA avx512
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/avx2/kv_form.h"
#include "kernels/cpu/avx512/wide_kv.h"
#include "kernels/cpu/avx512/wide_math.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/ask_ahead.h"
#include "kernels/cpu/generic/kv_pages.h"
#include "kernels/cpu/generic/ask_keys.h"
#include "kernels/cpu/generic/chunk_tiles.h"
#include "kernels/cpu/avx512/chunk_heads.h"
#include "kernels/cpu/generic/code_scales.h"
#include "kernels/cpu/generic/key_groups.h"
#include "kernels/cpu/avx512/vnni.h"
#include "kernels/cpu/avx512/chunk_codes.h"
#include "kernels/cpu/generic/attention_chunk.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_parts.h"
#include "kernels/cpu/generic/attention_tiled.h"
#include "kernels/cpu/generic/attention_forms.h"

#pragma GCC pop_options
#endif
