// Lines from a person: edited, with a history, when standard input is a terminal; plain lines otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace plumb::app {

class LineReader {
 public:
  // `history_file`: where lines are kept between runs; empty: nowhere. `interrupted` is asked when a signal arrives while
  // waiting for a line. One at a time.
  LineReader(std::string prompt, std::string history_file, std::function<bool()> interrupted);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Outcome { line, interrupted, end };
  // The next line, without its newline. interrupted: what was typed is dropped. end: Ctrl-D, or the end of the input.
  Outcome read(std::string& line);

  bool terminal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumb::app
