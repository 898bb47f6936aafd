#include "batch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/status.h"
#include "batch_request.h"
#include "batch_result.h"

namespace plumb::app {
namespace {

using nlohmann::json;

std::string key_of(const BatchId& id, std::uint64_t line) {
  return id.text.empty() ? fmt::format("line {}", line) : "id " + id.text;
}

// Calls visit(text, offset, ended) for every line; `ended`: a newline follows it. Stops at the first error.
template <class Visit>
Status each_line(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto newline = text.find('\n', at);
    const std::size_t end = newline == std::string_view::npos ? text.size() : newline;
    PLUMB_TRY(visit(text.substr(at, end - at), at, newline != std::string_view::npos));
    at = end + 1;
  }
  return {};
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

Result<BatchInput> BatchInput::open(const std::string& path) {
  PLUMB_ASSIGN(MappedFile file, MappedFile::open(path));
  BatchInput input(std::move(file));
  std::unordered_map<std::string, std::uint64_t> first;  // line on which an id stands
  std::uint64_t number = 0;
  PLUMB_TRY(each_line(text_of(input.file_), [&](std::string_view text, std::size_t offset, bool) -> Status {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    // A line that cannot be read has its error when its turn comes.
    const auto line = parse_json(text, path, kLineLimits);
    const BatchId id = line.ok() ? batch_id(*line) : BatchId{};
    const std::string key = key_of(id, number);
    if (const auto [it, fresh] = first.emplace(key, number); !fresh) {
      return fail(ErrorCode::invalid_argument, "the same id on two lines", path, fmt::format("lines {} and {}", it->second, number), printable(id.text));
    }
    input.lines_.push_back({number, offset, text.size(), key});
    return {};
  }));
  PLUMB_TRY(input.file_.check());
  return input;
}

std::string_view BatchInput::text(const BatchLine& line) const { return text_of(file_).substr(line.offset, line.bytes); }

BatchResults::BatchResults(BatchResults&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)), keys_(std::move(other.keys_)), size_(other.size_), torn_(other.torn_) {}

BatchResults::~BatchResults() {
  if (file_ >= 0) ::close(file_);
}

Error BatchResults::failed(const char* what) const { return fail(ErrorCode::io, fmt::format("{}: {}", what, std::strerror(errno)), path_); }

Result<BatchResults> BatchResults::open(const std::string& path, bool retry) {
  BatchResults results(-1, path);
  PLUMB_TRY(results.lock());
  PLUMB_TRY(results.read(retry));
  return results;
}

Status BatchResults::lock() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::string("cannot be opened: ") + std::strerror(errno), path_, "-o");
  struct stat about = {};
  if (::fstat(file_, &about) != 0) return failed("cannot be looked at");
  if (!S_ISREG(about.st_mode)) return fail(ErrorCode::invalid_argument, "must be a regular file: a run goes on with what it holds", path_, "-o");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) return fail(ErrorCode::io, "another run is writing to it", path_, "-o");
  size_ = static_cast<std::uint64_t>(about.st_size);
  return {};
}

Status BatchResults::read(bool retry) {
  if (size_ == 0) return {};
  std::string kept;
  std::uint64_t whole = 0;  // bytes of whole lines
  {
    PLUMB_ASSIGN(const MappedFile file, MappedFile::open(path_));
    std::uint64_t number = 0;
    PLUMB_TRY(each_line(text_of(file), [&](std::string_view text, std::size_t offset, bool ended) -> Status {
      ++number;
      if (!ended) {  // torn, if it is ours
        const auto common = std::min(text.size(), kResultBegins.size());
        if (text.substr(0, common) == kResultBegins.substr(0, common)) return {};
        return fail(ErrorCode::malformed, "ends in what is no result of plumb batch", path_, fmt::format("line {}", number), printable(text));
      }
      whole = offset + text.size() + 1;
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) return {};
      PLUMB_ASSIGN(const json line, parse_json(text, path_, kLineLimits));
      if (!is_result(line)) return fail(ErrorCode::malformed, "is no result of plumb batch", path_, fmt::format("line {}", number), printable(text));
      const bool error = is_error_result(line);
      if (error && retry) return {};
      keys_.emplace(key_of(batch_id(line), line["line"].get<std::uint64_t>()), error ? Kind::error : Kind::answer);
      if (retry) kept.append(text).append("\n");
      return {};
    }));
    PLUMB_TRY(file.verify_unchanged());
  }
  torn_ = size_ - whole;
  if (retry && kept.size() != whole) return rewrite(kept);
  if (torn_ > 0 && ::ftruncate(file_, static_cast<off_t>(whole)) != 0) return failed("the torn last line cannot be cut off");
  size_ = whole;
  return {};
}

// Replaces the file as a whole: at no moment is a result lost.
Status BatchResults::rewrite(std::string_view text) {
  PLUMB_ASSIGN(OutputFile file, OutputFile::create(path_));
  PLUMB_TRY(file.write(std::as_bytes(std::span(text))));
  PLUMB_TRY(file.commit());
  const int old = file_;  // locked until the new one is
  const Status locked = lock();
  ::close(old);
  return locked;
}

Status BatchResults::append(std::string line) {
  line += '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Error error = failed("a result cannot be written");
      if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) error.message += ", and its beginning cannot be cut off";
      return error;
    }
    done += static_cast<std::size_t>(n);
  }
  size_ += line.size();
  return {};
}

Status BatchResults::sync() {
  if (::fsync(file_) != 0 && errno != EINVAL) return failed("cannot be brought to the disk");
  return {};
}

}  // namespace plumb::app
