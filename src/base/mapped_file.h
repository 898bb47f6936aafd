// A file mapped read-only, that can be cut short under the mapping without killing the process.
//
// Reading a mapped page that lies past the end of its file raises SIGBUS; so does a disk error. A checkpoint lives in
// the page cache for hours, so a copy tool that rewrites it in place must not take the server down. The first open()
// installs a process-wide SIGBUS handler. When the fault lies inside a mapping of this class, the handler puts
// zero pages over the rest of that mapping and records the offset; the faulting thread goes on with zeros, whichever
// thread and kernel it is, and check() then returns the error. A fault anywhere else goes to the handler that was there
// before. So whoever computes from a mapping calls check() before the result leaves: after a load, and after a step
// that read weights in place. It costs one atomic load.
//
// What it cannot see: a file rewritten with other bytes of the same length. verify_unchanged() compares size and
// modification time with those at open(), and is called at the end of a load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/parse_limits.h"
#include "base/status.h"

namespace plumb {

class MappedFile {
 public:
  enum class Advice { normal, sequential, random, will_need, release };

  // Maps the whole of a regular file. An empty file gives empty bytes().
  // Errors: not_found, io (errno text in the message), invalid_argument (a directory, pipe or device),
  // limit_exceeded (larger than limits.max_file_bytes), capacity (more than 4096 files mapped at once).
  static Result<MappedFile> open(const std::string& path, const ParseLimits& limits = {});

  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  // Valid until destruction. Thread rule: any thread may read.
  std::span<const std::byte> bytes() const;
  const std::string& path() const;

  // Truncated or io when a page could not be read since open(); `value` holds the offset. Any thread.
  Status check() const;

  // check(), then size and modification time of the open file against those at open(). Any thread.
  Status verify_unchanged() const;

  // How bytes [offset, offset + length) will be read; the range is clipped to the file. A hint: it cannot fail. `release`:
  // not soon, so their pages need not stay resident; the bytes stay readable.
  void advise(Advice advice, std::uint64_t offset = 0, std::uint64_t length = UINT64_MAX) const;

 private:
  struct State;
  explicit MappedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Gives back the memory of the whole pages inside `bytes` of a mapping; reading them again brings them back from the file. For
// tensors that are not needed in their stored form any more. A hint: it cannot fail. Any thread.
void release_mapped_pages(std::span<const std::byte> bytes);

}  // namespace plumb
