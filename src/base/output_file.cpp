#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace plumb {
namespace {

constexpr std::size_t kBuffer = 1U << 20;

Error io_error(const char* what, const std::string& path) {
  const int code = errno;
  return fail(code == ENOENT || code == ENOTDIR ? ErrorCode::not_found : ErrorCode::io,
              std::string(what) + ": " + std::strerror(code), path);
}

}  // namespace

struct OutputFile::State {
  std::string path;
  std::string part;
  int descriptor = -1;
  std::vector<std::byte> buffer;
  std::uint64_t size = 0;
  std::optional<Error> error;  // the first one; it is given again to every later call
  bool committed = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
    if (!part.empty() && !committed) ::unlink(part.c_str());
  }

  Status put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        error = io_error("cannot write", path);
        return *error;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return {};
  }

  Status flush() {
    const Status status = put(buffer);
    buffer.clear();
    return status;
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  // O_EXCL and a counter: another writer of this process to the same path gets a neighbour of its own.
  for (int n = 0; state->descriptor < 0; ++n) {
    const std::string part = path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(n);
    state->descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (state->descriptor >= 0) {
      state->part = part;
    } else if (errno != EEXIST) {
      return io_error("cannot create", path);
    }
  }
  state->buffer.reserve(kBuffer);
  return OutputFile(std::move(state));
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  State& s = *state_;
  if (s.error) return *s.error;
  if (s.committed) return fail(ErrorCode::invalid_argument, "file is already complete", s.path);
  s.size += bytes.size();
  if (s.buffer.size() + bytes.size() > kBuffer) {
    PLUMB_TRY(s.flush());
    if (bytes.size() >= kBuffer) return s.put(bytes);
  }
  s.buffer.insert(s.buffer.end(), bytes.begin(), bytes.end());
  return {};
}

std::uint64_t OutputFile::size() const { return state_->size; }
const std::string& OutputFile::path() const { return state_->path; }

Status OutputFile::commit() {
  State& s = *state_;
  if (s.error) return *s.error;
  if (s.committed) return fail(ErrorCode::invalid_argument, "file is already complete", s.path);
  PLUMB_TRY(s.flush());
  const auto failed = [&s](const char* what) {
    s.error = io_error(what, s.path);
    return *s.error;
  };
  // Data before name: a rename that outlives its data in a power cut would leave a hollow file under the final name.
  if (::fsync(s.descriptor) != 0 && errno != EINVAL) return failed("cannot flush");
  if (::close(std::exchange(s.descriptor, -1)) != 0) return failed("cannot close");
  if (::rename(s.part.c_str(), s.path.c_str()) != 0) return failed("cannot rename the finished file");
  s.committed = true;
  return {};
}

}  // namespace plumb
