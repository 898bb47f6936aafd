// The op table and the kernel table: the two lists one reads to know what Plumb can compute and how.
//
// Adding an op is one header in api/, one reference in ref/ and one line in ops.cpp. Adding a kernel is one file and one
// line in table.cpp. docs/RECIPES.md walks through both.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"
#include "device/cpu/cpu_kernel.h"
#include "device/launch.h"
#include "kernels/api/ops.h"
#include "kernels/api/program.h"
#include "kernels/isa.h"

namespace plumb::kernels {

// Called for each operand of an op; `at` and `slot` are the fields of its Ref and may be rewritten (binding does).
using OperandFn = std::function<void(const OperandInfo& info, std::uint64_t& at, SlotId slot)>;

// An op without its type: what executors, tests and tools do to any op's arguments.
struct OpDesc {
  const char* name;
  std::uint32_t args_bytes;
  Status (*check)(const void* args);
  device::Cost (*cost)(const void* args);
  void (*set_rows)(void* args, std::int32_t rows);
  void (*operands)(void* args, const OperandFn& fn);
  // The double-precision reference, run on host memory with bound arguments. It is the op's meaning.
  void (*reference)(const void* args);
};

// The descriptor of an op whose check, cost, visit_operands and reference are found by overload.
template <class Args>
constexpr OpDesc describe_op() {
  return {.name = Args::kName,
          .args_bytes = sizeof(Args),
          .check = [](const void* args) -> Status { return check(*static_cast<const Args*>(args)); },
          .cost = [](const void* args) { return cost(*static_cast<const Args*>(args)); },
          .set_rows = [](void* args, std::int32_t rows) { static_cast<Args*>(args)->rows = rows; },
          .operands =
              [](void* args, const OperandFn& fn) {
                visit_operands(*static_cast<Args*>(args),
                               [&](OperandInfo info, auto& ref) {
                                 info.f32 = std::is_same_v<std::remove_cv_t<std::remove_pointer_t<decltype(ref.get())>>, float>;
                                 fn(info, ref.at, ref.slot);
                               });
              },
          .reference = [](const void* args) { reference(*static_cast<const Args*>(args)); }};
}

template <class Args>
const OpDesc& op();  // op<MatmulArgs>(); defined for every op of ops.h in ops.cpp

std::span<const OpDesc* const> all_ops();
const OpDesc* find_op(std::string_view name);

// One kernel of the table. `accepts` says whether it can run these arguments (its REQUIRES beyond the op's check).
struct KernelEntry {
  const OpDesc* op;
  device::Kernel kernel;
  Isa isa;
  bool (*accepts)(const void* args);
};

// Every kernel, best first within an op.
std::span<const KernelEntry> all_kernels();

// The first kernel of the op for `backend` whose set is `isa` or included in it (isa.h) and which accepts the arguments.
// ErrorCode::unsupported names op, format and backend when there is none.
Result<const KernelEntry*> select_kernel(const OpDesc& op, const void* args, device::Backend backend, Isa isa);

// Makes a typed phase. The op's check must hold; lowering calls it.
template <class Args>
Phase make_phase(const Args& args, std::int16_t layer, const char* phase_class, RowCount over = RowCount::rows) {
  Phase phase;
  phase.op = &op<Args>();
  phase.over = over;
  phase.layer = layer;
  phase.phase_class = phase_class;
  phase.args = ArgsBlob(args);
  return phase;
}

}  // namespace plumb::kernels
