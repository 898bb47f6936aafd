// Runs a kernel on a shape case and lists everything that is wrong with what it did. Empty: it conforms.
//
// What is asked of every kernel on every case:
//   - outputs within the case's bound of the double-precision reference, or bit-equal to it where there is no bound;
//   - no byte changed but those the reference writes: guards around every operand, inputs, rows beyond `rows`, gaps, unused
//     KV cells; since all of that is NaN poison, a read of it shows too;
//   - no fault counted;
//   - the same bits on a second run, and with 1, 2 and 3 worker threads;
//   - each row alone gives the bits it has in the batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_queue.h"
#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {

class Checker {
 public:
  Checker();
  ~Checker();
  std::vector<std::string> check(const KernelEntry& kernel, const ShapeCase& c);

 private:
  struct Prepared;  // a case's memory before and after, by its reference
  const Prepared& prepare(const ShapeCase& c);

  std::vector<std::unique_ptr<device::CpuQueue>> queues_;  // of 1, 2 and 3 threads
  std::unique_ptr<Prepared> last_;  // most of the time goes into references, and several kernels are checked against each
};

// Runs one launch of bound arguments and waits for it.
Status run_kernel(device::Queue& queue, const KernelEntry& kernel, const void* args);

}  // namespace plumb::kernels::conformance
