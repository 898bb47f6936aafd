// The two files of a batch: what is asked for, and what has been answered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "plumb/status.h"

namespace plumb::app {

// A line of the input, by place. Lines are parsed again when their turn comes, so that a long file does not live in memory.
struct BatchLine {
  std::uint64_t number = 0;  // from 1
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string key;  // of its id, or of its number where it has none: what the results are compared with
};

// One JSON value per line; lines that are empty do not count.
class BatchInput {
 public:
  // Reads all ids. Errors: those of MappedFile::open; invalid_argument when two lines have one id, which names both.
  static Result<BatchInput> open(const std::string& path);

  const std::vector<BatchLine>& lines() const { return lines_; }
  // Valid while this lives.
  std::string_view text(const BatchLine& line) const;
  // Errors: the file was cut short or changed while it was read.
  Status check() const { return file_.verify_unchanged(); }

 private:
  explicit BatchInput(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<BatchLine> lines_;
};

// The results, appended one line at a time. One process at a time holds such a file.
//
// A line is one write to the file, so that a process which is killed leaves whole lines, and at most the last one torn. open()
// cuts a torn line off.
class BatchResults {
 public:
  // Creates the file, or goes on with it. `retry`: results that are errors are removed first.
  // Errors: not_found, io (it cannot be written; another process holds it), malformed (a line that is no result of a batch: the
  // file is left as it is).
  static Result<BatchResults> open(const std::string& path, bool retry);

  BatchResults(BatchResults&& other) noexcept;
  BatchResults& operator=(BatchResults&&) = delete;
  ~BatchResults();

  enum class Kind : std::uint8_t { absent, answer, error };
  // What the file held under a key when it was opened.
  Kind find(const std::string& key) const {
    const auto it = keys_.find(key);
    return it == keys_.end() ? Kind::absent : it->second;
  }
  std::uint64_t torn_bytes() const { return torn_; }  // that were cut off
  // `line` without a newline. Errors: io (a full disk), after which the file holds whole lines still.
  Status append(std::string line);
  // Down to the disk. Errors: io.
  Status sync();

 private:
  BatchResults(int file, std::string path) : file_(file), path_(std::move(path)) {}
  Status lock();
  Status read(bool retry);
  Status rewrite(std::string_view text);
  Error failed(const char* what) const;

  int file_ = -1;
  std::string path_;
  std::unordered_map<std::string, Kind> keys_;
  std::uint64_t size_ = 0;
  std::uint64_t torn_ = 0;
};

}  // namespace plumb::app
