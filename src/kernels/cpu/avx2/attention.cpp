// The avx2 kernels over KV pages. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__x86_64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define PLUMB_CPU_ISA avx2
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/avx2/kv_form.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/ask_ahead.h"
#include "kernels/cpu/generic/kv_pages.h"
#include "kernels/cpu/generic/ask_keys.h"
#include "kernels/cpu/generic/kv_append.h"
#include "kernels/cpu/generic/chunk_tiles.h"
#include "kernels/cpu/generic/chunk_heads.h"
#include "kernels/cpu/generic/code_scales.h"
#include "kernels/cpu/generic/key_groups.h"
#include "kernels/cpu/avx2/word_products.h"
#include "kernels/cpu/generic/chunk_codes.h"
#include "kernels/cpu/generic/attention_chunk.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_parts.h"
#include "kernels/cpu/generic/attention_tiled.h"
#include "kernels/cpu/generic/attention_forms.h"

#pragma GCC pop_options
#endif
