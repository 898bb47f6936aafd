// Files for the format tests: a scratch folder, and byte strings built piece by piece so that hostile ones can be
// written.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace plumb::format {

// A folder of its own for each test, removed at the end.
class ScratchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / ("plumb_format_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, std::string_view content) const {
    // A new file each time: truncating one in place makes ext4 flush it on close, 100 times slower than a test needs.
    std::filesystem::remove(path(name));
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
};

// A byte string under construction: Bytes().u32(3).str("key").text("raw").
class Bytes {
 public:
  template <class T>
  Bytes& raw(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u8(std::uint8_t v) { return raw(v); }
  Bytes& u32(std::uint32_t v) { return raw(v); }
  Bytes& u64(std::uint64_t v) { return raw(v); }
  Bytes& text(std::string_view v) {
    out_ += v;
    return *this;
  }
  Bytes& str(std::string_view v) { return u64(v.size()).text(v); }  // a GGUF string
  Bytes& zeros(std::size_t count) {
    out_.append(count, '\0');
    return *this;
  }
  Bytes& align(std::size_t to) { return zeros((to - out_.size() % to) % to); }
  operator std::string() const { return out_; }  // NOLINT(google-explicit-constructor)
  const std::string& get() const { return out_; }

 private:
  std::string out_;
};

// A safetensors file with this header text and that many data bytes.
inline std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  return Bytes().u64(header.size()).text(header).zeros(data_bytes);
}

// The start of a GGUF file.
inline Bytes gguf_head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return Bytes().text("GGUF").u32(version).u64(tensors).u64(keys);
}

}  // namespace plumb::format
