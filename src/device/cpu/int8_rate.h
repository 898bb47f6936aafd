// How fast the vector units multiply bytes: the ceiling of prefill on the path of signed bytes.
#pragma once

#include "base/status.h"

namespace plumb::device {

// Products of an unsigned with a signed byte, each added to a sum, per second: `threads` threads on registers alone, the best of
// several passes over about `seconds`. Per 32 products that is one vpmaddubsw and one vpaddw with AVX2, per 64 one vpdpbusd with
// AVX-512 VNNI. 0 where this build knows no such instruction of this machine.
// Errors: internal (no threads). REQUIRES: threads >= 1.
Result<double> measure_int8_rate(int threads, double seconds);

}  // namespace plumb::device
