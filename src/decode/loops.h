// Makers of the loops, one for each loop_<name>.cpp: what the table in loops.cpp lists.
#pragma once

#include "decode/loop.h"

namespace plumb::decode {

std::unique_ptr<Loop> make_standard(std::int32_t k);
std::unique_ptr<Loop> make_chained(std::int32_t k);

}  // namespace plumb::decode
