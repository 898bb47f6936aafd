#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung({"06_codes", kernels::AttentionVariant::grouped, kernels::Isa::avx512, kernels::KvFormat::q8});
}
