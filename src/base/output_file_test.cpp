#include "base/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace plumb {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("plumb_out_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    path_ = (folder_ / "file").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
  std::string content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
  std::string path_;
};

TEST_F(OutputFileTest, AppearsWholeOnCommit) {
  auto file = OutputFile::create(path_);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  std::string expected;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1 << 19}, std::size_t{1 << 20},
                                 std::size_t{3 << 20}, std::size_t{5}}) {
    const std::string part(size, static_cast<char>('a' + size % 7));
    ASSERT_TRUE(file->write(bytes(part)).ok());
    expected += part;
  }
  EXPECT_EQ(file->size(), expected.size());
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content(), expected);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(file->write(bytes("x")).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(file->commit().error().code, ErrorCode::invalid_argument);
}

TEST_F(OutputFileTest, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  std::ofstream(path_) << "old";
  {
    auto file = OutputFile::create(path_);
    auto other = OutputFile::create(path_);
    ASSERT_TRUE(file.ok() && other.ok());
    ASSERT_TRUE(file->write(bytes("new")).ok());
  }
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, AbsentFolderIsNotFound) {
  const auto file = OutputFile::create((folder_ / "no" / "file").string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::not_found);
}

// A file-size limit stands in for a full disk: write() fails the same way.
TEST_F(OutputFileTest, FullDiskIsAnErrorAndLeavesNothing) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 21;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto file = OutputFile::create(path_);
    ASSERT_TRUE(file.ok());
    const std::string part(1 << 20, 'x');
    Status status;
    for (int i = 0; i < 4 && status.ok(); ++i) status = file->write(bytes(part));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::io);
    EXPECT_EQ(status.error().subject, path_);
    EXPECT_EQ(file->commit().error().code, ErrorCode::io) << "the first error stays";
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace plumb
