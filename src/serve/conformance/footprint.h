// Footprint: everything an engine holds on behalf of requests, as numbers, so that before and after can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "serve/engine_impl.h"

namespace plumb::conformance {

// By name: free pages of every pool, rows, locks and nodes of the tree, slots of recurrent state, requests by place, steps, live
// device objects, streams. Counters that only grow (steps launched, tokens) are not in it.
using Footprint = std::map<std::string, std::int64_t>;

// Unobserved: no access of the program. Thread rule: the driving thread.
Footprint footprint(const Engine::Impl& engine);

// "rows of the page tables: 3, was 4; ..."; empty when they are equal.
std::string difference(const Footprint& before, const Footprint& after);

}  // namespace plumb::conformance
