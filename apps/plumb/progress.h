// Progress of long work: a bar on a terminal, a plain line now and then elsewhere. On standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace plumb::app {

class Progress {
 public:
  // `what` in front of the figures; `total` counts `unit`s ("tokens"), or bytes without one. Prints nothing when
  // `quiet`.
  Progress(std::string what, std::uint64_t total, bool quiet, std::string unit = {});
  // Clears a bar that was not finished, so that what follows starts on a clean line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap: it draws ten times a second on a terminal, and every two seconds elsewhere.
  void update(std::uint64_t done);
  // The last line: amount, seconds and rate.
  void finish();

  double seconds() const;  // since construction

 private:
  void draw(std::uint64_t done);
  std::string amount(std::uint64_t n) const;

  std::string what_;
  std::string unit_;
  std::uint64_t total_ = 0;
  bool quiet_ = false;
  bool terminal_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace plumb::app
