// plumb batch, as its user sees it: whole files through the real program, killed and started again.
#include <gtest/gtest.h>
#include <sys/inotify.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";

std::string lines_of(const std::vector<json>& values) {
  std::string text;
  for (const json& value : values) text += value.dump() + "\n";
  return text;
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary | std::ios::trunc) << text; }

std::string key_of(const json& result) {
  const json& id = result.contains("custom_id") ? result["custom_id"] : result["id"];
  return id.is_null() ? "line " + result["line"].dump() : id.is_string() ? id.get<std::string>() : id.dump();
}

class Batch : public ::testing::Test {
 protected:
  const ScratchFolder scratch_;
  const std::string in_ = scratch_.file("in.jsonl");
  const std::string out_ = scratch_.file("out.jsonl");

  Finished run(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"batch", kModel, "-i", in_, "-o", out_, "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return run_plumb(all);
  }
  json report(std::vector<std::string> more = {}, int status = 0) const {
    more.emplace_back("--json");
    const Finished finished = run(more);
    EXPECT_EQ(finished.status, status) << finished.out << finished.err;
    return json::parse(finished.out, nullptr, false);
  }
  // By id. Every line must be whole, and no id may have two.
  std::map<std::string, json> results() const {
    std::map<std::string, json> all;
    std::istringstream in(read_file(out_));
    for (std::string line; std::getline(in, line);) {
      const json result = json::parse(line, nullptr, false);
      EXPECT_FALSE(result.is_discarded()) << line;
      if (result.is_discarded()) continue;
      EXPECT_TRUE(all.emplace(key_of(result), result).second) << line;
    }
    return all;
  }
};

json completion(const std::string& id, const json& body) { return {{"custom_id", id}, {"method", "POST"}, {"url", "/v1/completions"}, {"body", body}}; }
json chat(const std::string& id, const json& body) { return {{"custom_id", id}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}}; }

TEST_F(Batch, AnswersThatMustBeOneOfSomeTexts) {
  const json texts = {" yes", " no, not at all"};
  write_file(in_, lines_of({{{"id", "plain"}, {"prompt", "Was it so?"}, {"choices", texts}},
                            completion("two", {{"prompt", {"Was it so?", "And then?"}}, {"choices", texts}, {"temperature", 5}, {"seed", 3}}),
                            {{"id", "none"}, {"prompt", "x"}, {"choices", json::array()}},
                            {{"id", "empty"}, {"prompt", "x"}, {"choices", {"a", ""}}},
                            {{"id", "stop"}, {"prompt", "x"}, {"choices", texts}, {"stop", "n"}},
                            chat("chat", {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"choices", texts}})}));
  report({}, 1);
  const auto all = results();
  const auto one_of = [&](const json& text) { return std::find(texts.begin(), texts.end(), text) != texts.end(); };
  EXPECT_TRUE(one_of(all.at("plain")["text"])) << all.at("plain");
  EXPECT_EQ(all.at("plain")["finish"], "complete");
  for (const json& choice : all.at("two")["response"]["body"]["choices"]) {
    EXPECT_TRUE(one_of(choice["text"])) << choice;
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
  EXPECT_EQ(all.at("none")["error"]["field"], "choices");
  EXPECT_EQ(all.at("empty")["error"]["field"], "choices[1]");
  EXPECT_EQ(all.at("stop")["error"]["field"], "stop");
  EXPECT_EQ(all.at("chat")["response"]["body"]["error"]["code"], "unsupported");
  EXPECT_EQ(all.at("chat")["response"]["body"]["error"]["param"], "body.choices");
}

TEST_F(Batch, AnswersPlainLinesAsRunDoes) {
  const json run_document = json::parse(run_plumb({"run", kModel, "--json", "-p", "The ship", "-n", "9", "--greedy"}).out);
  write_file(in_, lines_of({{{"id", "text"}, {"prompt", "The ship"}, {"n", 9}},
                            {{"id", 7}, {"ids", run_document["prompt_ids"]}, {"n", 9}},
                            {{"id", "none"}, {"prompt", "The ship"}, {"n", 0}},
                            {{"id", "stop"}, {"prompt", "The ship"}, {"n", 40}, {"stop", "force"}, {"ignore_eos", true}}}));
  const json document = report({"--greedy"});
  EXPECT_EQ(document["done"], 4);
  EXPECT_EQ(document["errors"], 0);
  const auto all = results();
  ASSERT_EQ(all.size(), 4U);
  for (const char* id : {"text", "7"}) {
    const json& result = all.at(id);
    EXPECT_EQ(result["text"], run_document["text"]);
    EXPECT_EQ(result["ids"], run_document["ids"]);
    EXPECT_EQ(result["fingerprint"], run_document["fingerprint"]);
    EXPECT_EQ(result["finish"], "length");
    EXPECT_EQ(result["prompt_tokens"], 2);
    EXPECT_EQ(result["tokens"], 9);
    for (const char* key : {"cached_tokens", "rebuilt_tokens", "matched_tokens", "retractions"}) EXPECT_TRUE(result[key].is_number_integer()) << key;
    for (const char* key : {"queue_ms", "first_token_ms", "tokens_per_s"}) EXPECT_GT(result[key].get<double>(), 0) << key;
  }
  EXPECT_EQ(all.at("7")["id"], 7);  // as it was written
  EXPECT_EQ(all.at("none")["text"], "");
  EXPECT_EQ(all.at("stop")["finish"], "stop_string");
  EXPECT_EQ(all.at("stop")["text"].get<std::string>().find("force"), std::string::npos);
}

TEST_F(Batch, AnswersTheOpenAiForm) {
  write_file(in_, lines_of({completion("one", {{"model", "story"}, {"prompt", "The ship"}, {"max_tokens", 9}, {"temperature", 0}}),
                            completion("many", {{"model", "story"}, {"prompt", {"The ship", "Once upon"}}, {"n", 2}, {"max_tokens", 5},
                                                {"temperature", 1}, {"seed", -4}}),
                            completion("ids", {{"model", "story"}, {"prompt", {5, 6, 7}}, {"max_tokens", 3}, {"temperature", 0}, {"user", "me"}}),
                            chat("chat", {{"model", "story"},
                                          {"messages", {{{"role", "system"}, {"content", "Be brief."}},
                                                        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Continue the story."}}}}}}},
                                          {"max_completion_tokens", 12},
                                          {"temperature", 0}})}));
  report();
  const auto all = results();
  ASSERT_EQ(all.size(), 4U);
  const json run_document = json::parse(run_plumb({"run", kModel, "--json", "-p", "The ship", "-n", "9", "--greedy"}).out);
  for (const auto& [id, result] : all) {
    EXPECT_TRUE(result["error"].is_null()) << result;
    EXPECT_EQ(result["response"]["status_code"], 200) << result;
    EXPECT_EQ(result["response"]["body"]["model"], "story");
    EXPECT_TRUE(result["response"]["body"]["created"].is_number_integer());
  }
  const json& one = all.at("one")["response"]["body"];
  EXPECT_EQ(one["object"], "text_completion");
  EXPECT_EQ(one["choices"][0]["text"], run_document["text"]);
  EXPECT_EQ(one["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(one["choices"][0]["plumb"]["fingerprint"], run_document["fingerprint"]);
  EXPECT_EQ(one["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(one["usage"]["completion_tokens"], 9);
  EXPECT_EQ(one["usage"]["total_tokens"], 11);
  const json& many = all.at("many")["response"]["body"];
  ASSERT_EQ(many["choices"].size(), 4U);  // prompt by prompt, choice by choice
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(many["choices"][i]["index"], i);
  EXPECT_NE(many["choices"][0]["plumb"]["ids"], many["choices"][1]["plumb"]["ids"]);
  EXPECT_EQ(many["usage"]["completion_tokens"], 20);
  EXPECT_EQ(all.at("ids")["response"]["body"]["choices"][0]["plumb"]["prompt_tokens"], 3);
  const json& talk = all.at("chat")["response"]["body"];
  EXPECT_EQ(talk["object"], "chat.completion");
  const json& message = talk["choices"][0]["message"];
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_FALSE(message["content"].get<std::string>().empty());
  EXPECT_EQ(message["content"].get<std::string>().find("<|"), std::string::npos);
}

TEST_F(Batch, SaysWhatIsWrongWithALineAndGoesOn) {
  struct Case {
    const char* text;
    const char* field;
    const char* value;
    const char* code;
  };
  const Case cases[] = {
      {R"({"id": "a", "prompt": "x", "temprature": 1})", "temprature", "1", "invalid_argument"},
      {R"({"id": "b", "prompt": "x", "n": "many"})", "n", "\"many\"", "invalid_argument"},
      {R"({"id": "c", "prompt": "x", "top_p": 3})", "top_p", "3.000000", "invalid_argument"},
      {R"({"id": "d", "prompt": "x", "ids": [1]})", "ids", "[1]", "invalid_argument"},
      {R"({"id": "e"})", "prompt", "null", "invalid_argument"},
      {R"({"id": "f", "ids": []})", "ids", "[]", "invalid_argument"},
      {R"({"id": "g", "ids": [1, 4096]})", "prompt_ids[1]", "4096", "invalid_argument"},
      {R"({"id": "h", "prompt": "x", "logit_bias": {"one": 1}})", "logit_bias.one", "1", "invalid_argument"},
      {R"({"id": "i", "prompt": "x", "sampling": {"seed": 0.5}})", "sampling.seed", "0.5", "invalid_argument"},
      {R"({"custom_id": "j", "method": "POST", "url": "/v1/embeddings", "body": {}})", "url", "\"/v1/embeddings\"", "invalid_argument"},
      {R"({"custom_id": "k", "method": "GET", "url": "/v1/completions", "body": {}})", "method", "\"GET\"", "invalid_argument"},
      {R"({"custom_id": "l", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x", "echo": true}})", "body.echo", "true", "unsupported"},
      {R"({"custom_id": "m", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x", "n": 0}})", "body.n", "0", "invalid_argument"},
      {R"({"custom_id": "n", "method": "POST", "url": "/v1/completions", "body": {"prompt": [[1, 2], [3, "x"]]}})", "body.prompt[1][1]", "\"x\"", "invalid_argument"},
      {R"({"custom_id": "o", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": 1}]}})", "body.messages[0].content", "1", "invalid_argument"},
      {R"({"custom_id": "p", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "king", "content": "x"}]}})", "body.messages[0].role", "\"king\"", "invalid_argument"},
      {R"({"custom_id": "q", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "x"}], "tools": [{}]}})", "body.tools", "[{}]", "unsupported"},
      {R"({"custom_id": "r", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}})", "body.messages[0].content[0].type", "\"image_url\"", "unsupported"},
      {R"({"id": [], "prompt": "x"})", "id", "[]", "invalid_argument"},
      {R"({"prompt": "x"})", "id", "null", "invalid_argument"},
      {R"([1])", "", "[1]", "invalid_argument"},
      {R"({"id": "cut", "prom)", "", nullptr, "malformed"},
  };
  std::string text = "{\"id\": \"first\", \"prompt\": \"The ship\", \"n\": 2}\n\n";  // an empty line is no line
  for (const Case& c : cases) text += std::string(c.text) + "\r\n";
  write_file(in_, text + "{\"id\": \"last\", \"prompt\": \"The ship\", \"n\": 2}");  // without a newline
  const json document = report({"--greedy"}, 1);
  EXPECT_EQ(document["done"], 2);
  EXPECT_EQ(document["failed"], std::size(cases));
  const auto all = results();
  EXPECT_EQ(all.at("first")["ids"], all.at("last")["ids"]);
  std::size_t line = 3;
  for (const Case& c : cases) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.second["line"] == line; });
    ++line;
    ASSERT_NE(found, all.end()) << c.text;
    const json& result = found->second;
    const bool openai = result.contains("custom_id");
    const json& error = openai ? result["response"]["body"]["error"] : result["error"];
    if (openai) {
      EXPECT_EQ(result["response"]["status_code"], 400) << result;
      EXPECT_EQ(error["type"], "invalid_request_error") << result;
      EXPECT_NE(error["message"].get<std::string>().find("line " + std::to_string(line - 1)), std::string::npos) << result;
    }
    EXPECT_EQ(error[openai ? "param" : "field"], c.field) << result;
    if (c.value != nullptr) {
      EXPECT_EQ(error["value"], c.value) << result;
    }
    EXPECT_EQ(error["code"], c.code) << result;
  }
  EXPECT_EQ(all.at("line 24")["error"]["value"].get<std::string>().substr(0, 9), "column 20");
  // Errors are results too: nothing runs again, and the status still says so.
  EXPECT_EQ(report({"--greedy"}, 1)["before"], std::size(cases) + 2);
  EXPECT_EQ(results().size(), std::size(cases) + 2);
}

TEST_F(Batch, RetryRunsErrorsAgainAndNothingElse) {
  write_file(in_, lines_of({{{"id", "good"}, {"prompt", "The ship"}, {"n", 2}}, {{"id", "bad"}, {"prompt", "The ship"}, {"n", -1}}}));
  report({"--greedy"}, 1);
  const json good = results().at("good");
  write_file(in_, lines_of({{{"id", "good"}, {"prompt", "another"}, {"n", 3}}, {{"id", "bad"}, {"prompt", "The ship"}, {"n", 2}}}));
  EXPECT_EQ(report({"--greedy"}, 1)["before"], 2);
  const json document = report({"--greedy", "--retry"});
  EXPECT_EQ(document["done"], 1);
  EXPECT_EQ(document["before"], 1);
  EXPECT_EQ(results().at("good"), good);
  EXPECT_EQ(results().at("bad")["ids"], good["ids"]);
}

TEST_F(Batch, TwoLinesOfOneIdAreRefused) {
  write_file(in_, lines_of({{{"id", 5}, {"prompt", "a"}}, {{"id", "x"}, {"prompt", "a"}}, completion("5", {{"prompt", "a"}})}));
  const json document = report({}, 1);
  EXPECT_EQ(document["error"]["field"], "lines 1 and 3");
  EXPECT_EQ(document["error"]["value"], "5");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(Batch, GoesOnAfterATornLine) {
  std::vector<json> requests;
  for (int i = 0; i < 6; ++i) requests.push_back({{"id", "r" + std::to_string(i)}, {"prompt", "The ship"}, {"n", 3 + i}});
  write_file(in_, lines_of(requests));
  report({"--greedy"});
  const auto whole = results();
  const std::string text = read_file(out_);
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (const std::size_t kept : {last + 3, last + 40, text.size() - 1}) {
    write_file(out_, text.substr(0, kept));
    const json document = report({"--greedy"});
    EXPECT_EQ(document["before"], 5);
    EXPECT_EQ(document["done"], 1);
    EXPECT_EQ(document["torn_bytes"], kept - last);
    const auto again = results();
    ASSERT_EQ(again.size(), 6U);
    for (const auto& [id, result] : whole) EXPECT_EQ(again.at(id)["fingerprint"], result["fingerprint"]) << id;
  }
}

TEST_F(Batch, LeavesAFileAloneThatIsNotItsOwn) {
  write_file(in_, lines_of({{{"id", "a"}, {"prompt", "The ship"}, {"n", 1}}}));
  for (const std::string& foreign : std::vector<std::string>{"a note without a newline", "{\"id\": \"a\", \"prompt\": \"The ship\"}\n", "text\n"}) {
    write_file(out_, foreign);
    EXPECT_EQ(report({}, 1)["error"]["code"], "malformed");
    EXPECT_EQ(read_file(out_), foreign);
  }
  EXPECT_EQ(run_plumb({"batch", kModel, "-i", in_, "-o", in_}).status, 2);
  EXPECT_EQ(run_plumb({"batch", kModel, "-i", in_, "-o", "/dev/null"}).status, 1);
  EXPECT_EQ(run_plumb({"batch", kModel, "-i", "/nothing/here", "-o", out_}).status, 1);
}

// A run in the background, whose results can be waited for.
class Background {
 public:
  Background(std::vector<std::string> arguments, const std::string& folder, std::string out) : out_(std::move(out)) {
    watch_ = ::inotify_init1(IN_CLOEXEC);
    EXPECT_GE(::inotify_add_watch(watch_, folder.c_str(), IN_MODIFY), 0);
    arguments.insert(arguments.begin(), PLUMB_BINARY);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  ~Background() {
    if (child_ > 0) end(SIGKILL);
    ::close(watch_);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Until the results have this many lines; false when nothing is written for two minutes.
  bool wait_for_lines(std::ptrdiff_t count) const {
    for (;;) {
      const std::string text = read_file(out_);
      if (std::count(text.begin(), text.end(), '\n') >= count) return true;
      pollfd waiting{watch_, POLLIN, 0};
      if (::poll(&waiting, 1, 120000) <= 0) return false;
      std::array<char, 4096> events;
      if (::read(watch_, events.data(), events.size()) <= 0) return false;
    }
  }
  // It does nothing more until it ends, but keeps what it holds.
  void hold() { ::kill(child_, SIGSTOP); }
  int end(int signal) {
    ::kill(child_, signal);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string out_;
  int watch_ = -1;
  pid_t child_ = -1;
};

TEST_F(Batch, NothingIsLostOrRunTwiceWhenItIsStopped) {
  constexpr int kRequests = 60;
  std::vector<json> requests;
  for (int i = 0; i < kRequests; ++i) {
    requests.push_back({{"id", i}, {"prompt", "Once upon a time"}, {"n", 12}, {"temperature", 1}, {"seed", i}, {"ignore_eos", true}});
  }
  write_file(in_, lines_of(requests));
  report();
  const auto expected = results();
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kRequests));
  std::filesystem::remove(out_);

  const std::vector<std::string> arguments = {"batch", kModel, "-i", in_, "-o", out_, "-q", "--parallel", "2"};
  {
    Background run(arguments, scratch_.path(), out_);
    ASSERT_TRUE(run.wait_for_lines(3));
    run.hold();  // or it could be done before the second has begun
    // While it runs the results are its own.
    const Finished second = run_plumb(arguments);
    EXPECT_EQ(second.status, 1);
    EXPECT_NE(second.err.find("another run"), std::string::npos) << second.err;
    EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
  }
  const auto killed = results();  // lines are whole
  EXPECT_GE(killed.size(), 3U);
  ASSERT_LT(killed.size(), static_cast<std::size_t>(kRequests));
  {
    Background run(arguments, scratch_.path(), out_);
    ASSERT_TRUE(run.wait_for_lines(static_cast<std::ptrdiff_t>(killed.size()) + 3));
    EXPECT_EQ(run.end(SIGINT), 130);
  }
  const auto interrupted = results();
  EXPECT_GE(interrupted.size(), killed.size() + 3);
  ASSERT_LT(interrupted.size(), static_cast<std::size_t>(kRequests));
  for (const auto& [id, result] : killed) EXPECT_EQ(interrupted.at(id), result);  // not run again

  const json document = report();
  EXPECT_EQ(document["before"], interrupted.size());
  EXPECT_EQ(document["done"], kRequests - interrupted.size());
  const auto all = results();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kRequests));
  for (const auto& [id, result] : interrupted) EXPECT_EQ(all.at(id), result);
  for (const auto& [id, result] : expected) EXPECT_EQ(all.at(id)["fingerprint"], result["fingerprint"]) << id;
}

TEST_F(Batch, AnswersDoNotDependOnWhatRunsBesideThem) {
  std::vector<json> requests;
  for (int i = 0; i < 12; ++i) {
    const std::string prompt = i % 3 == 0 ? "The ship" : i % 3 == 1 ? "Once upon a time, a little girl named Lily found a map in the garden." : "He said:";
    json request = {{"id", i}, {"prompt", prompt}, {"n", 6 + i}, {"temperature", i % 2}, {"seed", i}};
    if (i % 4 == 1) request["repetition_penalty"] = 1.3;
    if (i % 4 == 3) request["stop"] = {" the"};
    requests.push_back(request);
  }
  write_file(in_, lines_of(requests));
  std::map<std::string, json> reference;
  for (const char* loop : {"standard", "chained:4"}) {
    for (const char* parallel : {"1", "8"}) {
      std::filesystem::remove(out_);
      const json document = report({"--parallel", parallel, "--loop", loop});
      EXPECT_EQ(document["loop"], loop);
      const auto all = results();
      ASSERT_EQ(all.size(), 12U);
      if (reference.empty()) reference = all;
      for (const auto& [id, result] : reference) {
        for (const char* key : {"text", "ids", "finish", "fingerprint"}) EXPECT_EQ(all.at(id)[key], result[key]) << loop << " " << parallel << " " << id;
      }
    }
  }
}

TEST_F(Batch, ReportsWhatThePrefixTreeGave) {
  const std::string shared = "Once upon a time, a little girl named Lily found a map in the garden. She ran to the old house by the sea and asked her father.";
  std::vector<json> requests;
  for (int i = 0; i < 3; ++i) requests.push_back({{"id", i}, {"prompt", shared + " It was number " + std::to_string(i)}, {"n", 4}});
  for (int i = 0; i < 2; ++i) {
    requests.push_back(chat("c" + std::to_string(i), {{"messages", {{{"role", "developer"}, {"content", shared}},
                                                                   {{"role", "user"}, {"content", "Tell me of " + std::to_string(i)}}}},
                                                      {"max_tokens", 4}}));
  }
  write_file(in_, lines_of(requests));
  const json document = report({"--parallel", "1", "--greedy"});
  const auto all = results();
  EXPECT_EQ(all.at("0")["cached_tokens"], 0);
  std::int64_t cached = 0;
  std::int64_t matched = 0;
  for (const char* id : {"1", "2"}) {
    EXPECT_GE(all.at(id)["cached_tokens"].get<int>() + all.at(id)["rebuilt_tokens"].get<int>(), 16) << all.at(id);
    EXPECT_GE(all.at(id)["matched_tokens"], all.at(id)["cached_tokens"]);
  }
  const json& body = all.at("c1")["response"]["body"];
  EXPECT_GE(body["usage"]["prompt_tokens_details"]["cached_tokens"], 16) << body;
  for (const auto& [id, result] : all) {
    const json& figures = result.contains("custom_id") ? result["response"]["body"]["choices"][0]["plumb"] : result;
    cached += figures["cached_tokens"].get<std::int64_t>();
    matched += figures["matched_tokens"].get<std::int64_t>();
  }
  EXPECT_EQ(document["cached_tokens"], cached);
  EXPECT_EQ(document["matched_tokens"], matched);
  EXPECT_GT(cached, 0);
}

TEST_F(Batch, AChatNeedsAModelThatKnowsTurns) {
  const std::string model = scratch_.file("mute");
  std::filesystem::create_directory(model);
  for (const auto& entry : std::filesystem::directory_iterator(kModel)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json")) {
      std::filesystem::create_symlink(entry.path(), model + "/" + name);
      continue;
    }
    std::string text = read_file(entry.path().string());
    for (std::size_t at = 0; (at = text.find("<|start|>", at)) != std::string::npos;) text.replace(at, 9, "<|begin|>");
    write_file(model + "/" + name, text);
  }
  write_file(in_, lines_of({chat("a", {{"messages", {{{"role", "user"}, {"content", "x"}}}}}), {{"id", "b"}, {"ids", {1, 2}}, {"n", 1}}}));
  EXPECT_EQ(run_plumb({"batch", model, "-i", in_, "-o", out_, "-q"}).status, 1);
  const auto all = results();
  EXPECT_EQ(all.at("a")["response"]["body"]["error"]["code"], "unsupported");
  EXPECT_EQ(all.at("b")["finish"], "length");
}

}  // namespace
}  // namespace plumb::test
