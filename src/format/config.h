// A model's configuration as typed values by key, whether it came from config.json or from GGUF keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/parse_limits.h"
#include "base/status.h"
#include "format/metadata.h"

namespace plumb::format {

// Inclusive ranges. A value outside is an error that states the range.
struct UintRange {
  std::uint64_t min = 0;
  std::uint64_t max = UINT64_MAX;
};
struct RealRange {
  double min = -1e30;
  double max = 1e30;
};

// Keys of nested objects are joined by dots: "rope_scaling.factor". JSON null counts as absent.
// Accessors: require_* gives not_found when the key is absent; optional_* gives the fallback then. A value of another
// type or outside the range is malformed either way. Each error names the file, the key, what is expected and what was
// found. An integer where a real is wanted is converted; a real where an integer is wanted is accepted only when it is
// whole. Thread rule: const methods from any thread.
class Config {
 public:
  // Parses config.json's text. Errors: those of parse_json; malformed when the text is not an object.
  static Result<Config> from_json(std::string_view text, std::string_view subject, const ParseLimits& limits = {});

  // Reads the file and parses it. Errors: also those of MappedFile::open.
  static Result<Config> from_file(const std::string& path, const ParseLimits& limits = {});

  // Copies GGUF keys. Arrays of more than limits.max_layers entries are left out: a setting has at most one value per
  // layer, and a vocabulary is read through Metadata.
  static Result<Config> from_metadata(const Metadata& metadata, std::string_view subject,
                                      const ParseLimits& limits = {});

  const std::string& subject() const { return subject_; }

  // Present and not null. An object or a list counts, by its own name.
  bool has(std::string_view key) const;

  // The first of the keys that is present, or the first one when none is (so that the error names the usual spelling).
  std::string_view first_of(std::initializer_list<std::string_view> keys) const;

  Result<std::uint64_t> require_uint(std::string_view key, UintRange range = {}) const;
  Result<std::uint64_t> optional_uint(std::string_view key, std::uint64_t fallback, UintRange range = {}) const;
  Result<double> require_real(std::string_view key, RealRange range = {}) const;
  Result<double> optional_real(std::string_view key, double fallback, RealRange range = {}) const;
  Result<bool> require_bool(std::string_view key) const;
  Result<bool> optional_bool(std::string_view key, bool fallback) const;
  Result<std::string> require_string(std::string_view key) const;
  Result<std::string> optional_string(std::string_view key, std::string fallback) const;

  // Lists; a scalar counts as a list of one (GGUF writes a per-layer value either way).
  Result<std::vector<std::uint64_t>> require_uints(std::string_view key, UintRange range = {}) const;
  Result<std::vector<double>> require_reals(std::string_view key, RealRange range = {}) const;
  Result<std::vector<bool>> require_bools(std::string_view key) const;
  Result<std::vector<std::string>> require_strings(std::string_view key) const;

  // An error about a key in this file, for checks that need several keys (sums, divisibility).
  Error error(std::string_view key, std::string message, std::string value = {}) const;

  // All keys with their values for people, sorted by key.
  std::vector<std::pair<std::string, std::string>> describe_all() const;

  // One leaf. List elements are scalars; `branch` stands for an object or a list of non-scalars, which has no value
  // itself.
  struct Branch {};
  using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;
  using Value = std::variant<Branch, Scalar, std::vector<Scalar>>;

 private:
  struct Entry {
    std::string key;
    Value value;
  };
  Config() = default;
  const Value* find(std::string_view key) const;
  Result<const Value*> require(std::string_view key) const;
  Status sort_entries();

  std::string subject_;
  std::vector<Entry> entries_;  // sorted by key
};

}  // namespace plumb::format
