// JsonFields: the members of one JSON object, read by name and by type, with nothing left over.
//
//   JsonFields fields(object, "request", "sampling");
//   fields.read("top_p", sampling.top_p);
//   PLUMB_TRY(fields.finish());   // the first thing that was wrong, or a member that nobody read
//
// Members that are absent, or null, leave their variable as it is. After the first error everything further is ignored, so a
// reader needs no check between fields.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace plumb {

class JsonFields {
 public:
  // `object` outlives this. `subject` is what errors name; `path` stands in front of the field there: "body.messages[2]".
  // A value that is no object is an error, which finish() returns.
  JsonFields(const nlohmann::json& object, std::string subject, std::string path = {});

  // Errors (invalid_argument, naming field and value): another type; a number that is not whole, or outside the variable's
  // type, which includes a float that would become infinite.
  void read(const char* key, bool& out);
  void read(const char* key, std::int32_t& out);
  void read(const char* key, std::int64_t& out);
  void read(const char* key, std::uint64_t& out);
  void read(const char* key, float& out);
  void read(const char* key, double& out);
  void read(const char* key, std::string& out);
  void read(const char* key, std::vector<std::int32_t>& out);
  void read(const char* key, std::vector<std::string>& out);

  // The member as it is, or null when there is none (or it is null). It counts as read.
  const nlohmann::json* find(const char* key);
  bool has(const char* key) const;  // and is not null

  // Records an error about a member unless there was one before. `value` as found.
  void fail(std::string_view key, std::string message, const nlohmann::json& value, ErrorCode code = ErrorCode::invalid_argument);
  // Takes over an error that another reader of this object's members had.
  void take(Status status);

  // "body.messages[2].content".
  std::string name(std::string_view key) const;
  const std::string& subject() const { return subject_; }
  const std::string& path() const { return path_; }
  bool ok() const { return !error_; }
  // The first error, or one for a member that was not read.
  Status finish();

 private:
  template <class T>
  void whole(const nlohmann::json& value, const std::string& where, T& out);

  const nlohmann::json* object_;
  std::string subject_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

// A JSON value as an error shows it: one line, cut after about 96 bytes.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace plumb
