// The step contract as data: every clause, and for every tracked cell the clauses it serves, who may write it and who reads it.
//
// docs/CONTRACT.md is generated from these tables (plumb contract --markdown), and a test fails when it is stale. The conformance
// suite (serve/conformance) has a check for every clause, and compares the reads and writes that really happened with the rules:
// an access by an activity that is not declared is a violation, and so is a declared one that never happens.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/cell_id.h"

namespace plumb::decode {

struct Clause {
  const char* id;          // "C1"
  const char* obligation;  // what must be true
  const char* readers;     // who relies on it
  const char* broken;      // what happens otherwise
  const char* check;       // what the conformance suite looks at
};

// In order, C1 first.
std::span<const Clause> clauses();
// Index of "C7" in clauses(), or -1.
int clause_index(std::string_view id);

// A set of activities.
class Activities {
 public:
  constexpr Activities() = default;
  constexpr Activities(std::initializer_list<Activity> list) {
    for (const Activity a : list) bits_ |= bit(a);
  }
  constexpr bool has(Activity a) const { return (bits_ & bit(a)) != 0; }
  std::string names() const;  // "plan, settle"; "-" when empty

 private:
  static constexpr std::uint32_t bit(Activity a) { return 1U << static_cast<unsigned>(a); }
  std::uint32_t bits_ = 0;
};

struct CellRule {
  CellId cell;
  std::string_view clauses;  // ids, separated by spaces; the first is the one a mutant of the cell is expected to break
  Activities writers;
  Activities readers;
};

// One rule for every cell, in the order of CellId.
std::span<const CellRule> cell_rules();

// The text of docs/CONTRACT.md.
std::string contract_markdown();

}  // namespace plumb::decode
