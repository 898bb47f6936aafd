// The state that outlives a step, by name: one line per tracked cell.
//
// This is the list behind the step contract. decode/contract says which clause each cell serves, who may write it and who
// reads it; a cell that no clause names fails the contract's tests. Names are `<holder>_<what>`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb {

// X(id, what it is)
#define PLUMB_CELLS(X)                                                                         \
  X(pool_free, "pages of a layer class that nobody holds")                                     \
  X(pool_refs, "holders of each page")                                                         \
  X(pool_limbo, "pages let go while a launched step may still touch them")                     \
  X(slots_rows, "rows of the page tables that no sequence owns")                               \
  X(slots_entries, "the page of each (row, index): the host's copy of the device's tables")    \
  X(slots_dirty, "entries changed since the last upload")                                      \
  X(slots_zero, "stand-in pages to be zeroed before the next forward")                         \
  X(sequence_pages, "the pages a sequence stands on, by class")                                \
  X(sequence_node, "the tree node a sequence stands on")                                       \
  X(sequence_committed, "positions whose rows settled steps have computed")                    \
  X(sequence_exact_from, "first position whose window rows are exact")                         \
  X(sequence_aux, "the recurrent-state slot a sequence computes in")                           \
  X(sequence_aux_source, "the cached state a sequence starts from, until it is copied")        \
  X(tree_nodes, "the nodes of the prefix tree")                                                \
  X(tree_children, "the children of a node")                                                   \
  X(tree_pages, "the pages of a node, by class")                                               \
  X(tree_aux, "the recurrent state after a node's last token")                                 \
  X(tree_locks, "sequences that stand on a node or below it")                                  \
  X(tree_use, "when a node was last used")                                                     \
  X(tree_snapshot, "whether conversations are likely to branch at a node")                     \
  X(clock_launched, "the last step launched")                                                  \
  X(clock_settled, "the last step settled")                                                    \
  X(book_stamp, "when the last step was launched")                                             \
  X(track_tokens, "prompt and settled answer of a request")                                    \
  X(track_computed, "positions whose forward has settled")                                     \
  X(track_launched, "positions handed to launched steps")                                      \
  X(track_drawn, "tokens drawn by launched steps, settled or not")                             \
  X(track_in_flight, "launched steps that carry the request")                                  \
  X(track_chunk, "whether a chunk of the prompt is in flight")                                 \
  X(track_stamp, "identity and time of the last step launched for the request")                \
  X(track_pending, "where the next forward finds the request's last token")                    \
  X(track_closing, "the request has ended: results still in flight change nothing")            \
  X(device_length, "device: positions of each row that forwards have passed")                  \
  X(device_relay, "device: the token each row drew last")                                      \
  X(request_tokens, "prompt and answer of a request that is not admitted")                     \
  X(request_track, "the track of an admitted request")                                         \
  X(request_match, "what the prefix tree held for the request at its admission")               \
  X(request_stage, "waiting, running or closing")                                              \
  X(request_emitted, "tokens delivered to the client")                                         \
  X(request_text, "text not yet delivered: partial characters and possible stop strings")      \
  X(request_usage, "lifetime counters of the request")                                         \
  X(request_counts, "how often each token occurs in the answer: penalties")                    \
  X(request_suspect, "positions it must pass alone: it was in a step that failed for nobody in particular") \
  X(request_constraint, "where the answer stands in what it must be: constraints")               \
  X(scheduler_requests, "every request that has not ended")                                    \
  X(scheduler_waiting, "requests not yet admitted, in order")                                  \
  X(scheduler_running, "admitted requests, in order of admission")                             \
  X(scheduler_blocked, "the head of the queue did not fit when last tried")                    \
  X(scheduler_mode, "running, paused, flushing or stopped")                                    \
  X(scheduler_flights, "steps launched and not settled, oldest first")                         \
  X(scheduler_busy, "how many steps are in flight: what pause, flush and idle work ask")       \
  X(scheduler_incarnations, "how many tracks have been made")                                  \
  X(scheduler_progress, "units of work done: tokens, chunks, ends")

enum class CellId : std::uint16_t {
#define PLUMB_CELL_ID(id, what) id,
  PLUMB_CELLS(PLUMB_CELL_ID)
#undef PLUMB_CELL_ID
};

inline constexpr std::string_view kCellNames[] = {
#define PLUMB_CELL_NAME(id, what) #id,
    PLUMB_CELLS(PLUMB_CELL_NAME)
#undef PLUMB_CELL_NAME
};
inline constexpr std::string_view kCellMeanings[] = {
#define PLUMB_CELL_MEANING(id, what) what,
    PLUMB_CELLS(PLUMB_CELL_MEANING)
#undef PLUMB_CELL_MEANING
};
inline constexpr std::size_t kCellCount = sizeof(kCellNames) / sizeof(kCellNames[0]);

constexpr std::string_view to_string(CellId id) { return kCellNames[static_cast<std::size_t>(id)]; }

// What the engine is doing: reads and writes are told apart by it.
enum class Activity : std::uint8_t {
  intake,   // requests, cancellations and orders come in; deadlines pass
  admit,    // a waiting request is matched, budgeted and given its row
  plan,     // rows of the next step are chosen and their slots reserved
  open,     // the plan becomes a ticket
  launch,   // the ticket is encoded and submitted
  settle,   // a result comes back
  deliver,  // tokens become text, events and ends
  release,  // an ended or retracted request gives everything back
  save,     // a session is written or read
  count_,
};
inline constexpr std::string_view kActivityNames[] = {"intake", "admit", "plan", "open", "launch", "settle", "deliver", "release", "save"};
inline constexpr std::size_t kActivityCount = static_cast<std::size_t>(Activity::count_);
constexpr std::string_view to_string(Activity activity) { return kActivityNames[static_cast<std::size_t>(activity)]; }

}  // namespace plumb
