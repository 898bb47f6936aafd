#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "console.h"

namespace plumb::app {
namespace {

void write_error(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

double ratio(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
}

}  // namespace

Progress::Progress(std::string what, std::uint64_t total, bool quiet, std::string unit)
    : what_(std::move(what)), unit_(std::move(unit)), total_(total), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()), last_(start_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) write_error("\r\x1b[K");
}

std::string Progress::amount(std::uint64_t n) const { return unit_.empty() ? bytes_text(n) : grouped(n) + " " + unit_; }

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::update(std::uint64_t done) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000))) return;
  last_ = now;
  draw(done);
}

void Progress::draw(std::uint64_t done) {
  const double part = ratio(done, total_);
  const double elapsed = seconds();
  const auto rate = static_cast<std::uint64_t>(elapsed > 0 ? static_cast<double>(done) / elapsed : 0);
  if (!terminal_) {
    write_error(fmt::format("{}: {} of {} ({:.0f}%), {}/s\n", what_, amount(done), amount(total_), part * 100, amount(rate)));
    return;
  }
  constexpr int kWidth = 30;
  const int filled = std::clamp(static_cast<int>(part * kWidth), 0, kWidth);
  const double left = part > 0 ? elapsed / part - elapsed : 0;
  write_error(fmt::format("\r\x1b[K{} [{}{}] {:3.0f}% {} {}/s, {:.0f} s left", what_, std::string(static_cast<std::size_t>(filled), '#'),
                          std::string(static_cast<std::size_t>(kWidth - filled), '.'), part * 100, amount(done), amount(rate),
                          left));
  drawn_ = true;
}

void Progress::finish() {
  if (quiet_) return;
  const double elapsed = seconds();
  const auto rate = static_cast<std::uint64_t>(elapsed > 0 ? static_cast<double>(total_) / elapsed : 0);
  write_error(fmt::format("{}{}: {} in {:.2f} s, {}/s\n", drawn_ ? "\r\x1b[K" : "", what_, amount(total_), elapsed, amount(rate)));
  drawn_ = false;
}

}  // namespace plumb::app
