#include "tensor_writer.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "base/status.h"
#include "console.h"
#include "ordered_pipeline.h"

namespace plumb::app {
namespace {

// Large enough that handing a piece over costs nothing beside making it, small enough to stay in a core's cache.
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

struct Piece {
  std::size_t job = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

std::vector<Piece> cut(std::span<const TensorJob> jobs) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::uint64_t all = jobs[i].bytes();
    const std::uint64_t step = std::max(kPieceBytes / jobs[i].granule, std::uint64_t{1}) * jobs[i].granule;
    for (std::uint64_t offset = 0; offset < all; offset += step) pieces.push_back({i, offset, std::min(step, all - offset)});
  }
  return pieces;
}

}  // namespace

Result<std::string> run_jobs(std::span<const TensorJob> jobs, int threads, const WriteFn& write, Progress& progress,
                             const InterruptGuard& interrupt) {
  const std::vector<Piece> pieces = cut(jobs);
  Hasher hasher;
  std::uint64_t done = 0;
  const auto produce = [&](std::uint64_t i, std::vector<std::byte>& bytes) {
    bytes.resize(pieces[i].bytes);
    jobs[pieces[i].job].fill(pieces[i].offset, bytes);
  };
  const auto consume = [&](std::uint64_t i, std::span<const std::byte> bytes) -> Status {
    if (interrupt.interrupted()) return interrupted_error();
    hasher.update(bytes);
    PLUMB_TRY(write(pieces[i].job, bytes));
    done += bytes.size();
    progress.update(done);
    return {};
  };
  PLUMB_TRY(ordered_pipeline(pieces.size(), threads, produce, consume));
  return hasher.digest().hex();
}

Status check_free_space(const std::string& path, std::uint64_t bytes) {
  const std::filesystem::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  struct statvfs info = {};
  if (::statvfs(folder.c_str(), &info) != 0) return {};  // opening the file says why
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (bytes <= free) return {};
  return fail(ErrorCode::io, fmt::format("needs {}, the file system has {} free", bytes_text(bytes), bytes_text(free)), path);
}

}  // namespace plumb::app
