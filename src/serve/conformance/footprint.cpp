#include "serve/conformance/footprint.h"

namespace plumb::conformance {

Footprint footprint(const Engine::Impl& engine) {
  Footprint f;
  const Scheduler& scheduler = engine.core().scheduler();
  const auto count = [](const auto& items) { return static_cast<std::int64_t>(items.size()); };
  const auto& classes = engine.layout().classes;
  const kv::SlotTable& slots = engine.slots();
  std::int64_t named = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::string name = "pool " + std::to_string(c);
    f[name + " free"] = count(engine.pool(c).peek_free());
    f[name + " waiting for steps"] = count(engine.pool(c).peek_limbo());
    std::int64_t refs = 0;
    for (const std::int32_t r : engine.pool(c).peek_refs()) refs += r;
    f[name + " references"] = refs;
    for (std::int32_t row = 0; row < slots.rows(); ++row) {
      for (std::int32_t i = 0; i < classes[c].geometry.table_pages; ++i) {
        named += slots.peek(static_cast<std::int32_t>(c), row, i) != kernels::kNoPage ? 1 : 0;
      }
    }
  }
  f["entries of the page tables"] = named;
  f["free rows of the page tables"] = count(slots.peek_free_rows());
  if (const kv::PagePool* aux = engine.aux(); aux != nullptr) {
    f["state slots free"] = count(aux->peek_free());
    f["state slots waiting for steps"] = count(aux->peek_limbo());
  }
  if (const kv::PrefixTree* tree = engine.tree(); tree != nullptr) {
    std::int64_t nodes = 0;
    std::int64_t locks = 0;
    tree->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) {
      ++nodes;
      locks += n.locks;
    });
    f["nodes of the tree"] = nodes;
    f["locks on nodes"] = locks;
  }
  f["requests"] = count(scheduler.peek_requests());
  f["requests running"] = count(scheduler.peek_running());
  f["requests waiting"] = static_cast<std::int64_t>(scheduler.peek_waiting());
  f["deadlines"] = static_cast<std::int64_t>(scheduler.peek_deadlines());
  f["blocked"] = scheduler.peek_blocked() ? 1 : 0;
  f["steps in flight"] = scheduler.peek_busy();
  f["tickets"] = static_cast<std::int64_t>(scheduler.peek_flights());
  const kv::StepClock& steps = scheduler.parts().steps;
  f["steps not settled"] = static_cast<std::int64_t>(steps.launched.peek() - steps.settled.peek());
  f["streams"] = static_cast<std::int64_t>(engine.core().streams());
  const device::LiveCounts live = engine.queue().live();
  f["command buffers"] = static_cast<std::int64_t>(live.encoders + live.in_flight);
  f["banks"] = static_cast<std::int64_t>(live.banks);
  f["bytes in banks"] = static_cast<std::int64_t>(live.bank_bytes);
  return f;
}

std::string difference(const Footprint& before, const Footprint& after) {
  std::string text;
  for (const auto& [name, was] : before) {
    const auto now = after.find(name);
    if (now != after.end() && now->second == was) continue;
    text += (text.empty() ? "" : "; ") + name + ": " + (now == after.end() ? "gone" : std::to_string(now->second)) + ", was " + std::to_string(was);
  }
  return text;
}

}  // namespace plumb::conformance
