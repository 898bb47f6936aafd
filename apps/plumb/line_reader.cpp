#include "line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <filesystem>
#include <iostream>

namespace plumb::app {

struct LineReader::State {
  std::string prompt;
  std::string history_file;
  std::function<bool()> interrupted;
  bool terminal = false;
  EditLine* editor = nullptr;
  History* history = nullptr;

  static char* prompt_of(EditLine* editor) {
    void* self = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<State*>(self)->prompt.data();
  }

  // One character of the terminal. The read behind libedit starts again after a signal; poll() does not, so Ctrl-C gets
  // through while nothing is typed.
  static int next_character(EditLine* editor, wchar_t* out) {
    void* data = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &data);
    auto* self = static_cast<State*>(data);
    std::mbstate_t partial{};
    for (;;) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (self->interrupted()) return -1;
      const int ready = ::poll(&input, 1, -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return -1;
      char byte = 0;
      const auto got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return static_cast<int>(got);
      const std::size_t used = std::mbrtowc(out, &byte, 1, &partial);
      if (used == static_cast<std::size_t>(-2)) continue;  // the character has more bytes
      if (used == static_cast<std::size_t>(-1)) {
        partial = {};
        *out = L'?';
      }
      return 1;
    }
  }
};

LineReader::LineReader(std::string prompt, std::string history_file, std::function<bool()> interrupted) : state_(std::make_unique<State>()) {
  state_->prompt = std::move(prompt);
  state_->history_file = std::move(history_file);
  state_->interrupted = std::move(interrupted);
  state_->terminal = ::isatty(STDIN_FILENO) == 1;
  if (!state_->terminal) return;
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->editor = ::el_init("plumb", stdin, stdout, stderr);
  if (state_->editor == nullptr) {  // no such terminal: plain lines
    state_->terminal = false;
    return;
  }
  EditLine* editor = state_->editor;
  ::el_set(editor, EL_CLIENTDATA, state_.get());
  ::el_set(editor, EL_PROMPT, &State::prompt_of);
  ::el_set(editor, EL_EDITOR, "emacs");
  ::el_set(editor, EL_GETCFN, &State::next_character);
  state_->history = ::history_init();
  HistEvent event;
  ::history(state_->history, &event, H_SETSIZE, 1000);
  ::history(state_->history, &event, H_SETUNIQUE, 1);
  ::el_set(editor, EL_HIST, &::history, state_->history);
  if (!state_->history_file.empty()) ::history(state_->history, &event, H_LOAD, state_->history_file.c_str());
}

LineReader::~LineReader() {
  if (state_->editor != nullptr) ::el_end(state_->editor);
  if (state_->history == nullptr) return;
  if (!state_->history_file.empty()) {  // a history that cannot be kept is no reason to fail
    HistEvent event;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(state_->history_file).parent_path(), ignored);
    ::history(state_->history, &event, H_SAVE, state_->history_file.c_str());
    std::filesystem::permissions(state_->history_file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
  }
  ::history_end(state_->history);
}

bool LineReader::terminal() const { return state_->terminal; }

LineReader::Outcome LineReader::read(std::string& line) {
  line.clear();
  if (!state_->terminal) return std::getline(std::cin, line) ? Outcome::line : Outcome::end;
  // The terminal is taken over before the prompt shows: libedit would do so after, and what is typed in between is echoed twice.
  ::el_set(state_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = ::el_gets(state_->editor, &count);
  if (state_->interrupted()) {
    ::el_reset(state_->editor);
    std::fputs("\n", stdout);
    return Outcome::interrupted;
  }
  if (text == nullptr || count <= 0) return Outcome::end;
  line.assign(text, static_cast<std::size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    ::history(state_->history, &event, H_ENTER, line.c_str());
  }
  return Outcome::line;
}

}  // namespace plumb::app
