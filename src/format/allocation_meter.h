// Counts heap bytes in the format tests, to hold parsers to "memory follows the file's size, not its claims".
#pragma once

#include <cstddef>

namespace plumb::format {

// Bytes that operator new has handed out and not yet got back, all threads together.
std::size_t live_heap_bytes();

// Starts a new high-water mark at the present level; peak_heap_bytes() is the highest level since.
void reset_heap_peak();
std::size_t peak_heap_bytes();

}  // namespace plumb::format
