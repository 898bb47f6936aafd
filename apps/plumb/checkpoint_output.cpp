#include "checkpoint_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/status.h"
#include "format/safetensors_writer.h"
#include "interrupt.h"
#include "progress.h"
#include "tensor_writer.h"

namespace plumb::app {
namespace {

std::vector<format::TensorDecl> declarations(std::span<const TensorJob> jobs) {
  std::vector<format::TensorDecl> out;
  for (const TensorJob& job : jobs) out.push_back({job.name, job.dtype, job.shape});
  return out;
}

// Index of the first job of each shard.
std::vector<std::size_t> cut_shards(std::span<const TensorJob> jobs, std::uint64_t shard_bytes) {
  std::vector<std::size_t> firsts;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (firsts.empty() || bytes + jobs[i].bytes() > shard_bytes) {
      firsts.push_back(i);
      bytes = 0;
    }
    bytes += jobs[i].bytes();
  }
  return firsts;
}

Status make_folder(const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return fail(ErrorCode::io, "cannot make the folder: " + code.message(), folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".safetensors") {  // shards of two models would mix
      return fail(ErrorCode::invalid_argument, "the folder holds a checkpoint already", folder, "", entry.path().filename().string());
    }
  }
  if (code) return fail(ErrorCode::io, "cannot list the folder: " + code.message(), folder);
  return {};
}

// The wider elements of a shard first, so that every tensor stays aligned for its own type.
void order_by_width(std::span<TensorJob> jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const TensorJob& a, const TensorJob& b) {
    return dtype_info(a.dtype).block_bytes > dtype_info(b.dtype).block_bytes;
  });
}

}  // namespace

Result<Written> write_gguf(const std::string& path, const format::GgufKeys& keys, std::span<const TensorJob> jobs,
                           const WriteOptions& options, const std::function<Status()>& verify) {
  Written written{.files = {path}, .bytes = total_bytes(jobs)};
  PLUMB_TRY(check_free_space(path, written.bytes));
  const InterruptGuard interrupt;
  Progress progress("writing " + path, written.bytes, options.quiet);
  PLUMB_ASSIGN(format::TensorWriter writer, format::create_gguf(path, keys, declarations(jobs)));
  const auto append = [&](std::size_t, std::span<const std::byte> bytes) { return writer.append(bytes); };
  PLUMB_ASSIGN(written.digest, run_jobs(jobs, options.threads, append, progress, interrupt));
  if (verify) PLUMB_TRY(verify());
  PLUMB_TRY(writer.finish());
  progress.finish();
  written.seconds = progress.seconds();
  return written;
}

Result<Written> write_safetensors(const std::string& folder, std::vector<TensorJob> jobs, std::uint64_t shard_bytes,
                                  const WriteOptions& options) {
  Written written{.bytes = total_bytes(jobs)};
  PLUMB_TRY(make_folder(folder));
  PLUMB_TRY(check_free_space(folder + "/.", written.bytes));
  const std::vector<std::size_t> firsts = cut_shards(jobs, shard_bytes);
  std::map<std::string, std::string> shard_of;
  std::vector<std::size_t> ends(firsts.begin() + 1, firsts.end());
  ends.push_back(jobs.size());
  for (std::size_t shard = 0; shard < firsts.size(); ++shard) {
    const std::string name = firsts.size() == 1 ? "model.safetensors"
                                                : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, firsts.size());
    order_by_width(std::span(jobs).subspan(firsts[shard], ends[shard] - firsts[shard]));
    for (std::size_t i = firsts[shard]; i < ends[shard]; ++i) shard_of[jobs[i].name] = name;
    written.files.push_back(folder + "/" + name);
  }

  const InterruptGuard interrupt;
  Progress progress("writing " + folder, written.bytes, options.quiet);
  std::optional<format::TensorWriter> writer;
  std::size_t shard = 0;  // the next to be begun
  const auto append = [&](std::size_t job, std::span<const std::byte> bytes) -> Status {
    if (shard < firsts.size() && job == firsts[shard]) {
      if (shard > 0) PLUMB_TRY(writer->finish());
      const std::span<const TensorJob> part = std::span(jobs).subspan(firsts[shard], ends[shard] - firsts[shard]);
      PLUMB_ASSIGN(writer, format::create_safetensors(written.files[shard], {{"format", "pt"}}, declarations(part)));
      ++shard;
    }
    return writer->append(bytes);
  };
  PLUMB_ASSIGN(written.digest, run_jobs(jobs, options.threads, append, progress, interrupt));
  if (writer.has_value()) PLUMB_TRY(writer->finish());
  const std::string index = folder + "/model.safetensors.index.json";
  if (firsts.size() > 1) {
    PLUMB_TRY(format::write_safetensors_index(index, shard_of, written.bytes));
    written.files.push_back(index);
  }
  progress.finish();
  written.seconds = progress.seconds();
  return written;
}

}  // namespace plumb::app
