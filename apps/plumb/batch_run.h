// Runs the lines of a batch through an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "answer.h"
#include "batch_file.h"
#include "batch_request.h"
#include "batch_result.h"

namespace plumb::app {

// Sums over what was run, for the report at the end.
struct BatchTotals {
  std::uint64_t done = 0;    // lines answered
  std::uint64_t failed = 0;  // lines with an error result
  std::uint64_t answers = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t rebuilt_tokens = 0;
  std::uint64_t matched_tokens = 0;
  std::uint64_t retractions = 0;
  std::vector<double> first_token_ms;  // of each answer
  std::vector<double> tokens_per_s;    // of each answer of two tokens or more
};

// Keeps twice as many requests submitted as are computed together, so that one is always ready, and reads lines only as room
// comes: a file of any length takes the memory of those. One thread computes and collects.
class BatchRun {
 public:
  BatchRun(Engine& engine, const BatchReader& reader, const BatchInput& input, BatchResults& results, std::size_t parallel)
      : engine_(engine), reader_(reader), input_(input), results_(results), window_(2 * parallel) {}

  // Until all lines have a result, or `go_on` is false: then what has not finished is given up, and has no result. `on_line` is
  // called after every result.
  // Errors: those of writing; device_lost and whatever else stops the engine.
  Status run(std::span<const BatchLine> lines, const std::function<bool()>& go_on, const std::function<void(const BatchTotals&)>& on_line);

  const BatchTotals& totals() const { return totals_; }

 private:
  // A line whose answers are on their way.
  struct Job {
    BatchRequest request;
    std::vector<Answer> answers;
    std::size_t submitted = 0;
    std::size_t finished = 0;
  };
  struct Active {
    Stream stream;
    Job* job;
    std::size_t index;
    bool begun = false;  // an event has come: it is being computed
    bool over = false;
  };

  Status fill(std::span<const BatchLine>& lines);
  Status begin_line(const BatchLine& line);
  Status submit_next(Job& job);
  Status take(Active& active, Event&& event);
  Status collect();
  Active& next_to_wait_for();
  Status finish(Job& job);
  Status fail(Job& job, const Error& error);

  Engine& engine_;
  const BatchReader& reader_;
  const BatchInput& input_;
  BatchResults& results_;
  const std::size_t window_;
  std::list<Job> jobs_;        // in the order of their lines; the last may not be submitted in full
  std::list<Active> active_;   // in the order of submission; they end before their jobs and the engine
  BatchTotals totals_;
  std::function<void(const BatchTotals&)> on_line_;
};

}  // namespace plumb::app
