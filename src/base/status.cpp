#include "base/status.h"

namespace plumb {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::io: return "io";
    case ErrorCode::truncated: return "truncated";
    case ErrorCode::malformed: return "malformed";
    case ErrorCode::limit_exceeded: return "limit_exceeded";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::shape_mismatch: return "shape_mismatch";
    case ErrorCode::missing_tensor: return "missing_tensor";
    case ErrorCode::unexpected_tensor: return "unexpected_tensor";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::allocation_while_encoding: return "allocation_while_encoding";
    case ErrorCode::capacity: return "capacity";
    case ErrorCode::device_fault: return "device_fault";
    case ErrorCode::device_lost: return "device_lost";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::deadline_exceeded: return "deadline_exceeded";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string text(plumb::to_string(code));
  text += ": ";
  if (!subject.empty()) text += subject + ": ";
  if (!field.empty()) text += field + ": ";
  text += message;
  if (!value.empty()) text += " (found " + value + ")";
  return text;
}

}  // namespace plumb
