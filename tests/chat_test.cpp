// plumb chat on a pseudo-terminal, as a person uses it, and in a pipe, as a script does.
#include <gtest/gtest.h>
#include <pty.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";

// The program on a terminal of its own.
class Session {
 public:
  Session(std::vector<std::string> arguments, const std::string& state_folder) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "XDG_STATE_HOME=" + state_folder, "TERM=xterm", PLUMB_BINARY});
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    const winsize size{24, 100, 0, 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  ~Session() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(terminal_);
  }

  void type(const std::string& keys) { EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size())); }

  // Reads until `text` has appeared since the last call; false when the program ends or two minutes pass without it.
  bool expect(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    for (;;) {
      const auto at = unread_.find(text);
      if (at != std::string::npos) {
        unread_.erase(0, at + text.size());
        return true;
      }
      pollfd waiting{terminal_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > end || ::poll(&waiting, 1, 1000) < 0) return false;
      if (waiting.revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(terminal_, buffer.data(), buffer.size());
      if (n <= 0) return false;
      unread_.append(buffer.data(), static_cast<std::size_t>(n));
      all_.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }

  int wait() {
    while (expect("\x01 nothing prints this")) {
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& all() const { return all_; }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string unread_;
  std::string all_;
};

TEST(Chat, AnswersAndEndsAtControlD) {
  const ScratchFolder scratch;
  Session session({"chat", kModel, "--no-system", "--greedy", "-n", "24"}, scratch.path());
  ASSERT_TRUE(session.expect("> ")) << session.all();
  session.type("Continue the story: The ship was gone.\r");
  ASSERT_TRUE(session.expect("gone.")) << session.all();
  ASSERT_TRUE(session.expect("\n> ")) << session.all();
  session.type("\x04");
  EXPECT_EQ(session.wait(), 0) << session.all();
  EXPECT_NE(read_file(scratch.path() + "/plumb/chat_history").find("The\\040ship"), std::string::npos);
}

TEST(Chat, ControlCStopsTheAnswerAndNotTheProgram) {
  const ScratchFolder scratch;
  // The end tokens are far away in a sampled ramble; 100,000 tokens would take minutes.
  Session session({"chat", kModel, "--no-system", "--temp", "5", "-n", "30000"}, scratch.path());
  ASSERT_TRUE(session.expect("> ")) << session.all();
  session.type("Continue the story: The ship was gone.\r");
  ASSERT_TRUE(session.expect("gone.\r\n")) << session.all();
  ASSERT_TRUE(session.expect(" ")) << session.all();  // the answer has begun
  session.type("\x03");
  ASSERT_TRUE(session.expect("(stopped)")) << session.all();
  ASSERT_TRUE(session.expect("> ")) << session.all();
  session.type("half a line\x03");
  ASSERT_TRUE(session.expect("> ")) << session.all();
  session.type("/help\r");
  ASSERT_TRUE(session.expect("/reset")) << session.all();
  session.type("/quit\r");
  EXPECT_EQ(session.wait(), 0) << session.all();
}

// plumb run beside it: there an answer is all there is, so Ctrl-C ends the program, in order and with a status of its own.
TEST(Run, ControlCEndsTheAnswerWithItsStatus) {
  const ScratchFolder scratch;
  Session session({"run", kModel, "-p", "The ship", "--temp", "5", "-n", "30000", "--ignore-eos"}, scratch.path());
  ASSERT_TRUE(session.expect(" ")) << session.all();
  session.type("\x03");
  EXPECT_TRUE(session.expect("finish: cancelled")) << session.all();
  EXPECT_EQ(session.wait(), 130);
}

TEST(Chat, InAPipeTheAnswerAloneIsOutput) {
  const Finished finished =
      run_plumb({"chat", kModel, "--no-system", "--greedy", "-n", "16"}, "Continue the story: The ship was gone.\n\n/reset\nAnd then?\n/nonsense\n");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("forgotten"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("no such command"), std::string::npos);
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(finished.out.find("> "), std::string::npos);
}

TEST(Chat, JsonHasTheMessages) {
  const Finished finished = run_plumb({"chat", kModel, "--no-system", "--greedy", "-n", "16", "--json"}, "Continue the story: The ship was gone.\n");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto document = nlohmann::json::parse(finished.out);
  ASSERT_GE(document["messages"].size(), 2U) << finished.out;
  EXPECT_EQ(document["messages"][0]["role"], "user");
  EXPECT_EQ(document["messages"][1]["role"], "assistant");
  EXPECT_FALSE(document["messages"][1]["content"].get<std::string>().empty());
}

}  // namespace
}  // namespace plumb::test
