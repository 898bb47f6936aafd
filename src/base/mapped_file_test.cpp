#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

namespace plumb {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() / ("plumb_map_" + std::to_string(::getpid()) + "_" +
                                          ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                .string();
  }
  void TearDown() override { fs::remove_all(path_); }
  void write(std::size_t size, char fill = 'x') { std::ofstream(path_, std::ios::binary) << std::string(size, fill); }
  std::string path_;
};

std::uint64_t sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                         [](std::uint64_t s, std::byte b) { return s + static_cast<std::uint64_t>(b); });
}

TEST_F(MappedFileTest, ShowsTheBytes) {
  write(10'001);
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->bytes().size(), 10'001U);
  EXPECT_EQ(sum(file->bytes()), 10'001U * 'x');
  file->advise(MappedFile::Advice::will_need, 5000, 100);
  file->advise(MappedFile::Advice::random, 1 << 30);
  file->advise(MappedFile::Advice::release);
  EXPECT_EQ(sum(file->bytes()), 10'001U * 'x');  // released bytes come back
  MappedFile moved = std::move(file).value();
  EXPECT_TRUE(moved.check().ok());
  EXPECT_TRUE(moved.verify_unchanged().ok());
  EXPECT_EQ(moved.path(), path_);
}

TEST_F(MappedFileTest, EmptyFileIsEmpty) {
  write(0);
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_TRUE(file->verify_unchanged().ok());
}

TEST_F(MappedFileTest, RefusesWhatIsNotAFile) {
  EXPECT_EQ(MappedFile::open(path_).error().code, ErrorCode::not_found);
  EXPECT_EQ(MappedFile::open("/").error().code, ErrorCode::invalid_argument);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path_).error().code, ErrorCode::invalid_argument);
}

TEST_F(MappedFileTest, SizeLimit) {
  write(100);
  ParseLimits limits;
  limits.max_file_bytes = 99;
  EXPECT_EQ(MappedFile::open(path_, limits).error().code, ErrorCode::limit_exceeded);
}

// Without the handler this test dies with SIGBUS.
TEST_F(MappedFileTest, TruncationUnderTheMappingIsAnError) {
  write(1 << 20);
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok());
  fs::resize_file(path_, 3 * 4096 + 10);
  EXPECT_TRUE(file->check().ok()) << "nothing was read yet";
  std::vector<std::jthread> readers;
  std::uint64_t sums[4] = {};
  for (std::uint64_t& s : sums) readers.emplace_back([&s, &file] { s = sum(file->bytes()); });
  readers.clear();
  for (const std::uint64_t s : sums) EXPECT_LE(s, (3U * 4096 + 10) * 'x');
  const Status status = file->check();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::truncated);
  EXPECT_EQ(status.error().subject, path_);
  EXPECT_EQ(status.error().value, "offset 16384");
  EXPECT_EQ(file->verify_unchanged().error().code, ErrorCode::truncated);
}

TEST_F(MappedFileTest, OtherFilesAreNotBlamed) {
  write(1 << 16);
  const std::string second = path_ + ".b";
  fs::copy_file(path_, second);
  auto a = MappedFile::open(path_);
  auto b = MappedFile::open(second);
  ASSERT_TRUE(a.ok() && b.ok());
  fs::resize_file(second, 0);
  EXPECT_EQ(sum(a->bytes()), (1U << 16) * 'x');
  EXPECT_EQ(sum(b->bytes()), 0U);
  EXPECT_TRUE(a->verify_unchanged().ok());
  EXPECT_EQ(b->check().error().code, ErrorCode::truncated);
  fs::remove(second);
}

TEST_F(MappedFileTest, ChangeWithoutTruncationIsSeenByVerify) {
  write(1000);
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok());
  std::ofstream(path_, std::ios::binary | std::ios::app) << "more";
  EXPECT_EQ(file->verify_unchanged().error().code, ErrorCode::io);
  fs::resize_file(path_, 1000);
  fs::last_write_time(path_, fs::last_write_time(path_) + std::chrono::seconds(2));
  EXPECT_EQ(file->verify_unchanged().error().code, ErrorCode::io);
}

TEST_F(MappedFileTest, SlotsAreReturned) {
  write(100);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(MappedFile::open(path_).ok()) << i;
}

class MappedFileDeathTest : public MappedFileTest {
 protected:
  // A fresh process for each statement, so that the handler is installed inside it.
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    MappedFileTest::SetUp();
  }
  // A statement's process dies with its file open, before TearDown: the file is removed while it is.
  Result<MappedFile> open_and_remove() {
    write(100);
    auto file = MappedFile::open(path_);
    fs::remove(path_);
    return file;
  }
  // Reads past the end of a file that is mapped by other means.
  void fault_elsewhere() {
    write(100);
    const int descriptor = ::open(path_.c_str(), O_RDWR);
    fs::remove(path_);
    const void* base = ::mmap(nullptr, 100, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (::ftruncate(descriptor, 0) != 0) ::_exit(47);
    if (*static_cast<const volatile char*>(base) == 'x') ::_exit(46);
  }
};

// The default action is set first: a sanitizer has a handler of its own there.
TEST_F(MappedFileDeathTest, SentSignalStillKills) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        auto file = open_and_remove();
        ::raise(SIGBUS);
        ::_exit(44);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappedFileDeathTest, SignalSentToTheProcessStillKills) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        auto file = open_and_remove();
        ::kill(::getpid(), SIGBUS);
        ::pause();  // another thread may take it
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappedFileDeathTest, FaultElsewhereStillKills) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        auto file = MappedFile::open("/proc/self/exe");
        fault_elsewhere();
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappedFileDeathTest, FaultElsewhereGoesToTheHandlerThatWasThere) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { ::_exit(42); });
        auto file = MappedFile::open("/proc/self/exe");
        fault_elsewhere();
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(MappedFileDeathTest, SentSignalGoesToTheHandlerThatWasThere) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { ::_exit(45); });
        auto file = open_and_remove();
        ::raise(SIGBUS);
      },
      ::testing::ExitedWithCode(45), "");
}

TEST_F(MappedFileDeathTest, IgnoredSentSignalStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_IGN);
        auto file = open_and_remove();
        ::raise(SIGBUS);
        ::_exit(43);
      },
      ::testing::ExitedWithCode(43), "");
}

}  // namespace
}  // namespace plumb
