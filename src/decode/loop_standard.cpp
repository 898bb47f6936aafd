// standard: coordinate, launch, wait, settle. One step at a time, and the scheduler looks at every one. The executable
// specification of the others.
#include "decode/loops.h"

namespace plumb::decode {
namespace {

class Standard final : public Loop {
 public:
  bool turn(LoopHost& host) override {
    host.coordinate();
    if (host.launch(false) != Launch::launched) return false;
    host.settle(1);
    return true;
  }
  std::int32_t depth() const override { return 1; }
};

}  // namespace

std::unique_ptr<Loop> make_standard(std::int32_t /*k*/) { return std::make_unique<Standard>(); }

}  // namespace plumb::decode
