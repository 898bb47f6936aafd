// A file that appears under its name whole or not at all.
//
// Bytes go to a neighbour named "<path>.part-<pid>-<n>"; commit() flushes it to the disk and renames it. Without
// commit() (an error, a cancelled run) the destructor removes it; a killed process leaves the neighbour, never a
// half-written file under the final name. An existing file at the path stays as it was until the rename replaces it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace plumb {

class OutputFile {
 public:
  // Errors: not_found (no such folder), io (errno text in the message).
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();

  // Appends. Buffered, so a full disk may be reported by a later write or by commit(). After an error every further
  // call returns that error. Thread rule: one thread at a time.
  Status write(std::span<const std::byte> bytes);

  // Bytes written so far, buffered ones included.
  std::uint64_t size() const;
  const std::string& path() const;

  // Makes the file appear. May be called once; later writes are invalid_argument.
  Status commit();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plumb
