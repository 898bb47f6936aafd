// Runs a program and collects what it writes, for tests of the real binary.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace plumb::test {

struct Finished {
  int status = -1;  // exit status; 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// Starts argv[0] (a path) without a shell, gives it `input`, and waits for its end. Standard input is empty otherwise.
inline Finished run_program(const std::vector<std::string>& argv, const std::string& input = {}) {
  Finished finished;
  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& ends : pipes) {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return finished;
  }
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipes[0][0], 0);
    ::dup2(pipes[1][1], 1);
    ::dup2(pipes[2][1], 2);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(pipes[0][0]);
  ::close(pipes[1][1]);
  ::close(pipes[2][1]);
  ::signal(SIGPIPE, SIG_IGN);  // a program that does not read its input
  std::size_t given = 0;
  while (given < input.size()) {
    const ssize_t n = ::write(pipes[0][1], input.data() + given, input.size() - given);
    if (n <= 0) break;
    given += static_cast<std::size_t>(n);
  }
  ::close(pipes[0][1]);

  std::array<pollfd, 2> waiting{pollfd{pipes[1][0], POLLIN, 0}, pollfd{pipes[2][0], POLLIN, 0}};
  std::array<std::string*, 2> texts{&finished.out, &finished.err};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) break;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t n = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (n > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(n));
      } else {
        ::close(waiting[i].fd);
        waiting[i].fd = -1;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

#ifdef PLUMB_BINARY
// The program itself, with these arguments.
inline Finished run_plumb(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), PLUMB_BINARY);
  return run_program(arguments, input);
}
#endif

// A fresh folder, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/plumb-test-" + std::string(6, 'X');  // mkdtemp fills the last six
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace plumb::test
