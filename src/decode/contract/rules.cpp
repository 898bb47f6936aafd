// What each cell is for, who writes it and who reads it.
#include "decode/contract/contract.h"

namespace plumb::decode {
namespace {

using enum Activity;

constexpr CellRule kRules[] = {
    {CellId::pool_free, "C10 C17", {intake, admit, plan, settle, release}, {admit, plan}},
    {CellId::pool_refs, "C17 C10 C14", {intake, admit, plan, settle, release}, {intake, admit, plan, settle, release}},
    {CellId::pool_limbo, "C10", {plan, settle, release}, {settle}},
    {CellId::slots_rows, "C17 C20", {admit, release}, {admit}},
    {CellId::slots_entries, "C1 C8", {admit, plan, settle, release}, {intake}},
    {CellId::slots_dirty, "C1", {intake, admit, plan, settle, release}, {plan}},
    {CellId::slots_zero, "C15", {admit, plan}, {plan}},
    {CellId::sequence_pages, "C1 C20", {admit, plan, settle, release}, {admit, plan, settle, release}},
    {CellId::sequence_node, "C14", {admit, settle}, {admit, settle, deliver, release}},
    {CellId::sequence_committed, "C2 C12", {admit, settle}, {admit, settle, deliver}},
    {CellId::sequence_exact_from, "C15", {admit}, {settle}},
    {CellId::sequence_aux, "C24", {admit}, {plan, release}},
    {CellId::sequence_aux_source, "C23 C24", {admit, settle}, {plan, settle, release}},
    {CellId::tree_nodes, "C14 C15", {intake, plan, settle}, {intake, admit, plan, settle, deliver, release}},
    {CellId::tree_children, "C14", {intake, plan, settle}, {intake, admit, plan, settle}},
    {CellId::tree_pages, "C15 C17", {intake, plan, settle}, {intake, admit, plan, settle}},
    {CellId::tree_aux, "C23 C24", {intake, admit, plan, settle}, {intake, admit, plan, settle}},
    {CellId::tree_locks, "C14", {admit, settle, release}, {intake, admit, plan, settle, release}},
    {CellId::tree_use, "C14", {admit, settle}, {intake, admit, plan, settle}},
    {CellId::tree_snapshot, "C15", {deliver}, {admit, plan}},
    {CellId::clock_launched, "C3 C10", {open}, {intake, admit, plan, open, settle, release}},
    {CellId::clock_settled, "C3 C10", {settle}, {intake, admit, plan, settle, release}},
    {CellId::book_stamp, "C3 C25", {open}, {intake, open}},
    {CellId::track_tokens, "C9 C2", {settle}, {admit, plan, settle, deliver, release}},
    {CellId::track_computed, "C2 C12", {admit, settle}, {settle}},
    {CellId::track_launched, "C2", {admit, open, settle}, {intake, plan}},
    {CellId::track_drawn, "C2 C4", {open, settle}, {plan, settle}},
    {CellId::track_in_flight, "C7 C20", {open, settle}, {deliver, release}},
    {CellId::track_chunk, "C13", {open, settle}, {plan}},
    {CellId::track_stamp, "C3", {open}, {deliver}},
    {CellId::track_pending, "C4", {open, settle}, {plan}},
    {CellId::track_closing, "C7", {deliver}, {settle}},
    {CellId::device_length, "C2", {plan}, {settle}},
    {CellId::device_relay, "C4", {plan}, {plan}},
    {CellId::request_tokens, "C21", {admit, release}, {admit, deliver}},
    {CellId::request_track, "C20 C21", {admit, release}, {intake, admit, plan, deliver, release}},
    {CellId::request_match, "C12", {admit, release}, {plan}},
    {CellId::request_stage, "C7 C21", {admit, deliver, release}, {intake, plan, deliver}},
    {CellId::request_emitted, "C11", {deliver}, {admit, plan, deliver}},
    {CellId::request_text, "C11", {deliver}, {deliver}},
    {CellId::request_usage, "C21", {admit, deliver, release}, {admit, deliver}},
    {CellId::request_counts, "C6", {deliver}, {plan, launch}},
    {CellId::request_suspect, "C7", {deliver}, {intake, plan, deliver}},
    {CellId::request_constraint, "C6", {deliver}, {plan, launch, deliver}},
    {CellId::scheduler_requests, "C20", {intake, release}, {intake, plan, launch, deliver}},
    {CellId::scheduler_waiting, "C17 C20", {intake, admit, release}, {intake, admit}},
    {CellId::scheduler_running, "C17 C20", {admit, release}, {intake, admit, plan}},
    {CellId::scheduler_blocked, "C18", {intake, admit, deliver, release}, {intake, admit, deliver, release}},
    {CellId::scheduler_mode, "C22", {intake}, {intake}},
    {CellId::scheduler_flights, "C5 C25", {launch, settle}, {intake, launch}},
    {CellId::scheduler_busy, "C5", {launch, settle}, {intake, plan}},
    {CellId::scheduler_incarnations, "C7", {admit}, {admit}},
    {CellId::scheduler_progress, "C25", {deliver}, {intake}},
};
static_assert(std::size(kRules) == kCellCount);

}  // namespace

std::span<const CellRule> cell_rules() { return kRules; }

}  // namespace plumb::decode
