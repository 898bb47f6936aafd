// The error of one quantised tensor, gathered from pieces that are made on several threads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "format/quantize/quantize.h"

namespace plumb::app {

// Thread rule: add() from any thread; total() when all pieces are there. Pieces are added up by their place and not by when they came,
// so the figures are the same on any number of threads.
class ErrorTally {
 public:
  void add(std::uint64_t place, const format::quantize::ErrorSum& sum) {
    const std::lock_guard lock(mutex_);
    pieces_[place] = sum;
  }
  format::quantize::ErrorSum total() const {
    const std::lock_guard lock(mutex_);
    format::quantize::ErrorSum all;
    for (const auto& [place, sum] : pieces_) all.add(sum);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, format::quantize::ErrorSum> pieces_;
};

}  // namespace plumb::app
