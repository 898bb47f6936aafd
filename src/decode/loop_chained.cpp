// chained: up to k steps are launched from tokens that only the device has, so the device never waits for the host. A stop that
// the host sees late is undone by settling: results of a request that has ended change nothing. The chain comes to rest for
// admission, for a prompt, for memory and for orders; then it is the standard loop.
//
// When the chain is full, the loop waits for the step half-way down and settles everything before it: the device keeps half a
// chain of work meanwhile, and one host wait serves several tokens. k = 1 settles every step (lowest latency of a token). A step that
// computes a prompt is waited for alone: a first token does not wait for those behind it.
#include "decode/loops.h"

namespace plumb::decode {
namespace {

class Chained final : public Loop {
 public:
  explicit Chained(std::int32_t k) : depth_(static_cast<std::size_t>(k) + 1) {}

  bool turn(LoopHost& host) override {
    host.coordinate();
    bool worked = false;
    Launch last = Launch::launched;
    while (host.in_flight() < depth_ && last == Launch::launched && (host.in_flight() == 0 || !host.wants_rest())) {
      last = host.launch(host.in_flight() > 0);
      worked = worked || last == Launch::launched;
    }
    const std::size_t flights = host.in_flight();
    if (flights == 0) return worked;
    const bool full = flights == depth_ && !host.wants_rest();
    const bool oldest_alone = last == Launch::needs_oldest || host.prompt_in_flight();
    host.settle(oldest_alone ? 1 : full ? (flights + 1) / 2 : flights);
    return true;
  }
  std::int32_t depth() const override { return static_cast<std::int32_t>(depth_); }

 private:
  const std::size_t depth_;
};

}  // namespace

std::unique_ptr<Loop> make_chained(std::int32_t k) { return std::make_unique<Chained>(k); }

}  // namespace plumb::decode
