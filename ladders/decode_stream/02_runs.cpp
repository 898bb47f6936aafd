// Rung 2: every worker has a run of neighbouring tasks, and helps at the end of the other's (device/cpu/task_runs.h).
//
// A prefetcher has something to follow across tasks, and what it fetched too much is the worker's own next task; the workers do not alternate
// in the pages of one run of memory.
// Prediction: half of what rung 1 loses.
// Outcome:    54 to 55% (24.7 to 25.1 GB/s), a quarter more than rung 1: less than half of what it loses.
#include "rung.h"

int main() { return plumb::ladder::run_rung("02_runs", plumb::ladder::Order::runs, plumb::ladder::stream_task<2, 0>); }
