// Runs tensor jobs on several threads into whatever writes their bytes.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "interrupt.h"
#include "plumb/status.h"
#include "progress.h"
#include "tensor_job.h"

namespace plumb::app {

// Takes the bytes of job `index`, from its first to its last, in pieces; jobs come in order.
using WriteFn = std::function<Status(std::size_t index, std::span<const std::byte> bytes)>;

// Memory: a few MB per thread, whatever the tensors' sizes. Errors: those of `write`; cancelled.
// Returns the XXH3-128 digest of all tensor bytes in order, in hexadecimal.
Result<std::string> run_jobs(std::span<const TensorJob> jobs, int threads, const WriteFn& write, Progress& progress,
                             const InterruptGuard& interrupt);

// Refuses a write of `bytes` to `path` that the file system has no room for, with both numbers. Error: io.
Status check_free_space(const std::string& path, std::uint64_t bytes);

}  // namespace plumb::app
