#include "device/fault.h"

namespace plumb::device {

std::string_view to_string(FaultPoint point) {
  switch (point) {
    case FaultPoint::reserve: return "reserve";
    case FaultPoint::begin: return "begin";
    case FaultPoint::submit: return "submit";
    case FaultPoint::execute: return "execute";
    case FaultPoint::device_lost: return "device_lost";
    case FaultPoint::bad_index: return "bad_index";
    case FaultPoint::non_finite: return "non_finite";
    case FaultPoint::hang: return "hang";
    case FaultPoint::count_: break;
  }
  return "unknown";
}

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::bad_index: return "bad_index";
    case FaultKind::non_finite: return "non_finite";
    case FaultKind::short_reservation: return "short_reservation";
  }
  return "unknown";
}

}  // namespace plumb::device
