#include "text/stop.h"

#include <algorithm>

namespace plumb::text {

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
  if (stops.size() > kMaxStrings) {
    return fail(ErrorCode::limit_exceeded, "at most " + std::to_string(kMaxStrings) + " stop strings", "request", "stop",
                std::to_string(stops.size()));
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return fail(ErrorCode::invalid_argument, "a stop string must not be empty", "request", "stop");
    if (stop.size() > kMaxBytes) {
      return fail(ErrorCode::limit_exceeded, "a stop string may be " + std::to_string(kMaxBytes) + " bytes long", "request", "stop",
                  std::to_string(stop.size()));
    }
  }
  StopMatcher matcher;
  matcher.stops_ = std::move(stops);
  matcher.build();
  return matcher;
}

std::int32_t StopMatcher::child(std::int32_t node, std::uint8_t byte) const {
  const auto& next = nodes_[static_cast<std::size_t>(node)].next;
  const auto found = std::lower_bound(next.begin(), next.end(), byte, [](const auto& edge, std::uint8_t b) { return edge.first < b; });
  return found != next.end() && found->first == byte ? found->second : -1;
}

void StopMatcher::build() {
  for (std::size_t s = 0; s < stops_.size(); ++s) {
    std::int32_t node = 0;
    for (const char c : stops_[s]) {
      const auto byte = static_cast<std::uint8_t>(c);
      std::int32_t to = child(node, byte);
      if (to < 0) {
        to = static_cast<std::int32_t>(nodes_.size());
        Node fresh;
        fresh.depth = nodes_[static_cast<std::size_t>(node)].depth + 1;
        nodes_.push_back(std::move(fresh));
        auto& next = nodes_[static_cast<std::size_t>(node)].next;
        next.insert(std::lower_bound(next.begin(), next.end(), std::pair{byte, std::int32_t{0}}), {byte, to});
      }
      node = to;
    }
    std::int32_t& match = nodes_[static_cast<std::size_t>(node)].match;
    if (match < 0) match = static_cast<std::int32_t>(s);
  }
  // Breadth first: a node's fail link is shallower, so it is complete when the node is reached.
  std::vector<std::int32_t> order = {0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t node = order[i];
    for (const auto& [byte, to] : nodes_[static_cast<std::size_t>(node)].next) {
      order.push_back(to);
      if (node == 0) continue;  // children of the root fail to the root
      std::int32_t fallback = nodes_[static_cast<std::size_t>(node)].fail;
      while (fallback != 0 && child(fallback, byte) < 0) fallback = nodes_[static_cast<std::size_t>(fallback)].fail;
      Node& target = nodes_[static_cast<std::size_t>(to)];
      target.fail = std::max(child(fallback, byte), 0);
      if (target.match < 0) target.match = nodes_[static_cast<std::size_t>(target.fail)].match;
    }
  }
}

std::string StopMatcher::feed(std::string_view piece) {
  if (stopped()) return {};
  held_.reserve(held_.size() + piece.size());
  for (const char c : piece) {
    const auto byte = static_cast<std::uint8_t>(c);
    std::int32_t to = child(at_, byte);
    while (to < 0 && at_ != 0) {
      at_ = nodes_[static_cast<std::size_t>(at_)].fail;
      to = child(at_, byte);
    }
    at_ = std::max(to, 0);
    held_.push_back(c);
    if (const std::int32_t match = nodes_[static_cast<std::size_t>(at_)].match; match >= 0) {
      found_ = static_cast<std::size_t>(match);
      held_.resize(held_.size() - stops_[*found_].size());
      return std::exchange(held_, {});
    }
  }
  // The state is the longest end of the text that some stop string begins with.
  const std::size_t keep = nodes_[static_cast<std::size_t>(at_)].depth;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::flush() {
  at_ = 0;
  return std::exchange(held_, {});
}

}  // namespace plumb::text
