// plumb chat on a pseudo-terminal, as a person uses it, and in a pipe, as a script does.
#include <gtest/gtest.h>
#include <pty.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";

// A copy of the model that can never end an answer: its output rows of all special tokens are those of token 0. A special
// token's logit then equals that of a lower id, and the greedy choice takes the lowest id among equals.
std::string write_endless_model(const ScratchFolder& scratch) {
  const std::string folder = scratch.file("endless");
  std::filesystem::create_directory(folder);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(kModel + "/" + name, folder + "/" + name);
  }
  std::string bytes = read_file(kModel + "/model.safetensors");
  std::uint64_t header = 0;  // length of the JSON that follows it
  bytes.copy(reinterpret_cast<char*>(&header), sizeof(header));
  const auto head = nlohmann::json::parse(bytes.substr(sizeof(header), header)).at("lm_head.weight");
  const auto rows = head.at("shape").at(0).get<std::size_t>();
  const auto begin = sizeof(header) + header + head.at("data_offsets").at(0).get<std::size_t>();
  const auto row_bytes = (head.at("data_offsets").at(1).get<std::size_t>() - head.at("data_offsets").at(0).get<std::size_t>()) / rows;
  const auto tokenizer = nlohmann::json::parse(read_file(kModel + "/tokenizer.json"));
  for (const auto& token : tokenizer.at("added_tokens")) {
    const auto id = token.at("id").get<std::size_t>();
    EXPECT_GT(id, 0U);
    bytes.replace(begin + id * row_bytes, row_bytes, bytes.substr(begin, row_bytes));
  }
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes;
  return folder;
}

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
      if (!read_some(end)) return false;
    }
  }

  // Reads until anything has appeared since the last call, and takes it.
  bool expect_anything() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (unread_.empty()) {
      if (!read_some(end)) return false;
    }
    unread_.clear();
    return true;
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
  // Takes what the program has written, if it did within a second; false at its end or past `end`.
  bool read_some(std::chrono::steady_clock::time_point end) {
    pollfd waiting{terminal_, POLLIN, 0};
    if (std::chrono::steady_clock::now() > end || ::poll(&waiting, 1, 1000) < 0) return false;
    if (waiting.revents == 0) return true;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(terminal_, buffer.data(), buffer.size());
    if (n <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(n));
    all_.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }

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
  // Nor can it end by its length: 30,000 tokens are more text than a terminal holds unread, and the program waits there.
  Session session({"chat", write_endless_model(scratch), "--no-system", "--greedy", "-n", "30000"}, scratch.path());
  ASSERT_TRUE(session.expect("> ")) << session.all();
  session.type("Continue the story: The ship was gone.\r");
  ASSERT_TRUE(session.expect("gone.\r\n")) << session.all();
  ASSERT_TRUE(session.expect_anything()) << session.all();  // the answer has begun
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
  ASSERT_TRUE(session.expect_anything()) << session.all();
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
