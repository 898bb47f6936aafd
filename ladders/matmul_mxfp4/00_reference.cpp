// Rung 0, the meaning: every weight through the scalar codec, every sum in double.
//
// Prediction: tens of scalar instructions for a product; 256 products near a microsecond.
// Outcome:    470 ns for one row (the row is decoded first), 240 ns with 64: half a microsecond.
#include "rung.h"

namespace {

void rung(const plumb::ladder::Problem& p, float* out) {
  using namespace plumb::kernels;
  const MatmulArgs args{
      .out = host_ref(out), .in = host_ref<const float>(p.in.data()), .weight = p.weight, .rows = p.rows};
  op<MatmulArgs>().reference(&args);
}

}  // namespace

int main() { return plumb::ladder::run_rung("00_reference", plumb::ladder::Activations::f32, rung); }
