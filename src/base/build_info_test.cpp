#include "base/build_info.h"

#include <gtest/gtest.h>

#include <string_view>

namespace plumb {
namespace {

TEST(BuildInfo, EveryFieldSaysSomething) {
  const BuildInfo& info = build_info();
  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_FALSE(info.build_type.empty());
  EXPECT_FALSE(info.sanitizers.empty());
  EXPECT_FALSE(info.target.empty());
  EXPECT_FALSE(running_system().empty());
}

TEST(BuildInfo, FlagsAreThoseThatDecideResults) {
  EXPECT_NE(build_info().flags.find("-ffp-contract=off"), std::string_view::npos) << build_info().flags;
}

TEST(BuildInfo, SanitizersAreThoseThatRun) {
#ifdef __SANITIZE_ADDRESS__
  EXPECT_NE(build_info().sanitizers.find("address"), std::string_view::npos);
#else
  EXPECT_EQ(build_info().sanitizers.find("address"), std::string_view::npos);
#endif
}

// That it follows the checkout is tested by tests/git_commit_test.sh.
TEST(BuildInfo, CommitIsAHashOrUnknown) {
  std::string_view commit = build_info().commit;
  if (commit == "unknown") return;
  if (commit.ends_with("-dirty")) commit.remove_suffix(std::string_view("-dirty").size());
  EXPECT_EQ(commit.size(), 12u) << commit;
  EXPECT_EQ(commit.find_first_not_of("0123456789abcdef"), std::string_view::npos) << commit;
}

}  // namespace
}  // namespace plumb
