// The program from outside: help, exit status, the form of errors. What single verbs do is tested beside each.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::Finished;
using test::run_plumb;

// The first words under "Verbs:" of the help text.
std::vector<std::string> verbs() {
  std::vector<std::string> names;
  std::istringstream lines(run_plumb({"--help"}).out);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Verbs:")) {
      inside = true;
    } else if (inside && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (inside && line.empty()) {
      break;
    }
  }
  return names;
}

// Every "--name" of a help text.
std::vector<std::string> long_options(const std::string& help) {
  std::vector<std::string> found;
  for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at + 2)) {
    const std::size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    found.push_back(help.substr(at, end - at));
  }
  return found;
}

void expect_one_line(const std::string& text) {
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
}

TEST(Cli, HelpListsTheVerbs) {
  const auto names = verbs();
  EXPECT_GE(names.size(), 5U);
  for (const char* expected : {"inspect", "convert", "synth", "devices", "version"}) {
    EXPECT_NE(std::ranges::find(names, expected), names.end()) << expected;
  }
}

TEST(Cli, EveryVerbHasHelpAndADocumentedSection) {
  ASSERT_FALSE(verbs().empty());
  const std::string manual = test::read_file(PLUMB_SOURCE_DIR "/docs/CLI.md");
  for (const std::string& verb : verbs()) {
    const Finished help = run_plumb({verb, "--help"});
    EXPECT_EQ(help.status, 0) << verb;
    EXPECT_NE(help.out.find("plumb " + verb), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("--json"), std::string::npos) << verb;
    EXPECT_TRUE(help.err.empty()) << help.err;
    const std::size_t section = manual.find("\n## plumb " + verb + "\n");
    ASSERT_NE(section, std::string::npos) << "docs/CLI.md has no section for " << verb;
    const std::string text = manual.substr(section, manual.find("\n## ", section + 4) - section);
    // Every long option of the help stands in the verb's own section or in the introduction.
    const std::string introduction = manual.substr(0, manual.find("\n## plumb "));
    for (const std::string& option : long_options(help.out)) {
      EXPECT_TRUE(text.find(option) != std::string::npos || introduction.find(option) != std::string::npos)
          << verb << " " << option << " is not in docs/CLI.md";
    }
  }
}

TEST(Cli, TheManualListsTheExitStatus) {
  const std::string manual = test::read_file(PLUMB_SOURCE_DIR "/docs/CLI.md");
  const std::string header = test::read_file(PLUMB_SOURCE_DIR "/apps/plumb/exit_code.h");
  std::istringstream lines(header);
  int found = 0;
  for (std::string line; std::getline(lines, line);) {  // "  failure = 1,       // ..."
    std::istringstream words(line);
    std::string name, equals, number;
    if (!(words >> name >> equals >> number) || equals != "=" || !number.ends_with(",")) continue;
    number.pop_back();
    EXPECT_NE(manual.find("| " + number + " | " + name + " |"), std::string::npos) << line;
    ++found;
  }
  EXPECT_GE(found, 5);
}

TEST(Cli, VersionNamesTheCommit) {
  const Finished plain = run_plumb({"--version"});
  EXPECT_EQ(plain.status, 0);
  EXPECT_EQ(plain.out.rfind("plumb ", 0), 0U);
  const Finished verb = run_plumb({"version", "--json"});
  ASSERT_EQ(verb.status, 0);
  const json document = json::parse(verb.out);
  for (const char* key : {"version", "commit", "compiler", "build_type", "flags", "sanitizers", "target", "system"}) {
    EXPECT_TRUE(document.at(key).is_string()) << key;
  }
  EXPECT_NE(plain.out.find(document["commit"].get<std::string>()), std::string::npos);
}

TEST(Cli, DevicesListTheCpu) {
  const Finished listed = run_plumb({"devices", "--json"});
  ASSERT_EQ(listed.status, 0);
  const json cpu = json::parse(listed.out).at("devices").at(0);
  EXPECT_EQ(cpu.at("name"), "cpu");
  EXPECT_GE(cpu.at("cores").get<int>(), 1);
  EXPECT_GT(cpu.at("memory_bytes").get<std::uint64_t>(), 1U << 24);
}

TEST(Cli, BadUsageIsStatusTwoAndOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"frobnicate"},
      {"--frobnicate"},
      {""},
      {"\xff\xfe"},
      {std::string(100000, 'x')},
      {"synth", "--layers", "0", "-o", "x"},
      {"synth", "--layers", "-1", "-o", "x"},
      {"synth", "--layers", "99999999999999999999999", "-o", "x"},
      {"synth", "--layers", "4096", "--layers"},
      {"synth", "--hidden", "1e3", "-o", "x"},
      {"synth", "--preset", "gpt-5", "-o", "x"},
      {"synth", "--attn", "q3", "-o", "x"},
      {"synth", "extra", "-o", "x"},
      {"synth"},
      {"version", "version"},
      {"version", "--json=maybe"},
  };
  for (const auto& arguments : cases) {
    const Finished done = run_plumb(arguments);
    std::string shown;
    for (const auto& word : arguments) shown += word.substr(0, 40) + " ";
    EXPECT_EQ(done.status, 2) << shown << done.out << done.err;
    EXPECT_EQ(done.err.rfind("plumb: error: ", 0), 0U) << shown << done.err;
    EXPECT_TRUE(done.out.empty()) << shown;
    expect_one_line(done.err);
    EXPECT_LT(done.err.size(), 8192U);
  }
}

TEST(Cli, ErrorsAsJson) {
  const Finished usage = run_plumb({"synth", "--json", "--hidden", "33", "-o", "x"});
  EXPECT_EQ(usage.status, 2);
  EXPECT_TRUE(usage.err.empty()) << usage.err;
  json error = json::parse(usage.out).at("error");
  EXPECT_EQ(error.at("code"), "invalid_argument");
  EXPECT_EQ(error.at("field"), "--hidden");
  EXPECT_EQ(error.at("value"), "33");
  for (const char* key : {"message", "subject"}) EXPECT_TRUE(error.at(key).is_string());

  const Finished unknown = run_plumb({"synth", "--json", "--\xff"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(json::parse(unknown.out).at("error").at("code"), "invalid_argument");

  const Finished world = run_plumb({"synth", "--json", "-q", "-o", "/no/such/folder/x.gguf"});
  EXPECT_EQ(world.status, 1);
  error = json::parse(world.out).at("error");
  EXPECT_EQ(error.at("code"), "not_found");
  EXPECT_NE(error.at("subject").get<std::string>().find("/no/such/folder"), std::string::npos);
}

// A full disk under standard output is not success.
TEST(Cli, OutputThatCannotBeWrittenIsAnError) {
  const std::string command = std::string("'") + PLUMB_BINARY + "' version > /dev/full";
  const Finished done = test::run_program({"/bin/sh", "-c", command});
  EXPECT_EQ(done.status, 1);
  EXPECT_EQ(done.err.rfind("plumb: error: ", 0), 0U) << done.err;
}

}  // namespace
}  // namespace plumb
