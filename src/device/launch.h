// What is recorded into a command buffer: kernels with their arguments, what each owes in bytes and flops, and who it is.
//
// The device layer knows no op and no model. A kernel here is a name, a backend and an entry point; the typed side lives in
// kernels/. Declared costs make bandwidth a derived number: nobody types GB/s by hand.
#pragma once

#include <cstdint>
#include <span>

namespace plumb::device {

enum class Backend : std::uint8_t { cpu, cuda, vulkan };

// What one launch must move and compute, declared by the op from its arguments. Counts each distinct byte once, as a
// perfect cache would: the roofline of the launch, not its traffic.
struct Cost {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t flops = 0;

  Cost& operator+=(const Cost& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    flops += other.flops;
    return *this;
  }
};

// A compiled kernel of one backend. `entry` is called in the way of its backend: on the CPU it is a CpuKernelFn
// (cpu/cpu_kernel.h). Lives in a constant table; pointers to it stay valid for the life of the program.
struct Kernel {
  const char* name;  // grammar: <activation>_<weight>w_<op>, e.g. "f32_mxfp4w_matmul"
  Backend backend;
  const void* entry;
};

// Who a launch is, for faults, timing and --diag. `op` and `phase_class` are static strings.
struct LaunchTag {
  const char* op = "";
  const char* phase_class = "";  // "attention_full", "attention_sliding", "moe", "head": the rows of per-class timing
  std::int16_t layer = -1;       // -1: not inside a layer
};

// One operand of a launch, as --diag sees it. Buffers are told by name; finiteness is checked where f32 is written.
struct Operand {
  const char* name = "";          // static string: the field of the op's arguments, "out"
  const void* address = nullptr;  // device address
  std::uint64_t bytes = 0;
  bool f32 = false;      // elements are float; anything else is not looked into
  bool written = false;  // the launch writes it
};

// One kernel call. `args` is copied while recording, so it may live on the caller's stack.
// REQUIRES: args_bytes <= kMaxArgsBytes and args trivially copyable.
struct Launch {
  const Kernel* kernel = nullptr;
  const void* args = nullptr;
  std::uint32_t args_bytes = 0;
  Cost cost;  // of this launch, whole: a queue may give one that declares little to one worker; one that declares nothing is for all
  LaunchTag tag;
  std::span<const Operand> operands = {};  // copied while recording; needed only when Recorder::wants_operands()
};

inline constexpr std::uint32_t kMaxArgsBytes = 512;  // a struct of pointers and sizes; CUDA's own limit is 4 KiB

// What a launch did, when timing was asked for. Times in nanoseconds of the device's own clock. Launches of a buffer run
// one after the other, so t1 of one is the earliest t0 of the next.
struct LaunchRecord {
  const Kernel* kernel = nullptr;
  LaunchTag tag;
  Cost cost;
  std::uint64_t t0_ns = 0;
  std::uint64_t t1_ns = 0;
};

}  // namespace plumb::device
