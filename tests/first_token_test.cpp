// When a first token is delivered: a prompt's step is waited for alone, whatever runs behind it.
#include "traces.h"

namespace plumb::conformance {
namespace {

TEST_F(Traces, AFirstTokenDoesNotWaitForTheChainBehindIt) {
  in_both_loops({}, [](Scene& s) {
    World& w = *s.world;
    const std::int32_t number = w.ask(s.ask(1, 40, 30));
    while (w.asked(number).tokens.empty()) w.turn();
    EXPECT_EQ(w.asked(number).tokens.size(), 1U);
    EXPECT_EQ(w.engine().core().scheduler().busy(), s.chained()) << "the device has work meanwhile";
    w.turn();
    EXPECT_EQ(w.asked(number).tokens.size() > 2, s.chained()) << "one wait for several tokens, from then on";
    // Somebody comes while the chain runs: theirs does not wait either.
    const std::int32_t later = w.ask(s.ask(2, 8, 20));
    while (w.asked(later).tokens.empty()) w.turn();
    EXPECT_EQ(w.asked(later).tokens.size(), 1U);
    s.finish(number);
    s.finish(later);
  });
}

}  // namespace
}  // namespace plumb::conformance
