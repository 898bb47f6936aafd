// Every header that kernel bodies need, included before a target pragma is opened.
//
// A kernel body is compiled once for each instruction set, inside a namespace of that set (PLUMB_CPU_ISA), with
// `#pragma GCC target` around it. Anything inline that were first seen inside the pragma would be compiled with that
// instruction set too, and the linker could pick that copy for the whole program, which then dies on an older machine. So a
// body includes nothing of its own; it gets everything from here, and defines everything in its own namespace.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/blocks.h"
#include "base/counter_rng.h"
#include "base/super_blocks.h"
#include "device/cpu/cpu_kernel.h"
#include "kernels/api/ops.h"
#include "kernels/cpu/kernels.h"
