#include "text/choices.h"

#include <algorithm>

#include "base/printable.h"

namespace plumb::text {
namespace {

Error bad(ErrorCode code, std::size_t number, std::string message, const std::string& text) {
  return fail(code, std::move(message), "request", "choices[" + std::to_string(number) + "]", text.empty() ? "empty" : printable(text));
}

}  // namespace

void Choices::add(const std::string& text, std::int32_t number) {
  State at = kStart;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = nodes_[static_cast<std::size_t>(at)].children;
    const auto it = std::lower_bound(children.begin(), children.end(), byte, [](const auto& child, unsigned char b) { return child.first < b; });
    if (it != children.end() && it->first == byte) {
      at = it->second;
      continue;
    }
    const auto made = static_cast<State>(nodes_.size());
    children.insert(it, {byte, made});
    nodes_.emplace_back();
    at = made;
  }
  if (nodes_[static_cast<std::size_t>(at)].choice < 0) nodes_[static_cast<std::size_t>(at)].choice = number;
}

// Last nodes first, so that where a token leads is known to be alive or dead before the token is taken.
void Choices::link(const TokenIndex& index) {
  struct Place {
    State node;
    TokenIndex::Range range;
  };
  std::vector<Place> open;
  std::vector<Step> found;
  for (auto n = static_cast<State>(nodes_.size()); n-- > 0;) {
    found.clear();
    open.assign(1, {n, index.all()});
    while (!open.empty()) {
      const Place place = open.back();
      open.pop_back();
      for (const auto& [byte, child] : nodes_[static_cast<std::size_t>(place.node)].children) {
        const TokenIndex::Range range = index.narrow(place.range, byte);
        if (range.empty()) continue;
        open.push_back({child, range});
        const Node& to = nodes_[static_cast<std::size_t>(child)];
        if (to.choice < 0 && to.count == 0) continue;
        for (const std::int32_t token : index.spelled(range)) found.push_back({token, child});
      }
    }
    std::sort(found.begin(), found.end(), [](const Step& a, const Step& b) { return a.token < b.token; });
    Node& node = nodes_[static_cast<std::size_t>(n)];
    node.first = static_cast<std::uint32_t>(steps_.size());
    node.count = static_cast<std::uint32_t>(found.size());
    steps_.insert(steps_.end(), found.begin(), found.end());
  }
}

Result<Choices> Choices::compile(const TokenIndex& index, const std::vector<std::string>& choices, bool can_end) {
  if (choices.empty()) return fail(ErrorCode::invalid_argument, "must hold at least one text", "request", "choices", "[]");
  if (choices.size() > kMaxChoices) {
    return fail(ErrorCode::limit_exceeded, "must hold at most " + std::to_string(kMaxChoices) + " texts", "request", "choices", std::to_string(choices.size()));
  }
  std::size_t total = 0;
  Choices made;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string& text = choices[i];
    if (text.empty()) return bad(ErrorCode::invalid_argument, i, "must not be empty", text);
    if (text.size() > kMaxBytes) return bad(ErrorCode::limit_exceeded, i, "must have at most " + std::to_string(kMaxBytes) + " bytes; it has " + std::to_string(text.size()), text);
    if (!is_utf8(text)) return bad(ErrorCode::invalid_argument, i, "must be UTF-8", text);
    total += text.size();
    if (total > kMaxTotalBytes) return bad(ErrorCode::limit_exceeded, i, "brings the choices above " + std::to_string(kMaxTotalBytes) + " bytes together", text);
    made.add(text, static_cast<std::int32_t>(i));
  }
  made.link(index);
  std::vector<bool> reached(made.nodes_.size());
  reached[kStart] = true;
  for (std::size_t n = 0; n < made.nodes_.size(); ++n) {
    if (!reached[n]) continue;
    for (const Step& step : made.steps(static_cast<State>(n))) reached[static_cast<std::size_t>(step.to)] = true;
  }
  for (std::size_t n = 0; n < made.nodes_.size(); ++n) {
    const Node& node = made.nodes_[n];
    if (node.choice < 0) continue;
    const auto number = static_cast<std::size_t>(node.choice);
    if (!reached[n]) return bad(ErrorCode::unsupported, number, "cannot be spelled with the tokens of this vocabulary", choices[number]);
    if (!node.children.empty() && !can_end) {
      return bad(ErrorCode::unsupported, number, "begins another choice, and this vocabulary has no token that could end it", choices[number]);
    }
  }
  return made;
}

std::span<const Choices::Step> Choices::steps(State state) const {
  const Node& node = nodes_[static_cast<std::size_t>(state)];
  return std::span(steps_).subspan(node.first, node.count);
}

Choices::State Choices::step(State state, std::int32_t token) const {
  const auto all = steps(state);
  const auto it = std::lower_bound(all.begin(), all.end(), token, [](const Step& s, std::int32_t t) { return s.token < t; });
  return it != all.end() && it->token == token ? it->to : kNowhere;
}

}  // namespace plumb::text
