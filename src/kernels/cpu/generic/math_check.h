// Measures the functions of math.h against the C library in double. For the tests of each instruction set.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct ExpReport {
  double worst_ulp = 0;    // of exp8 over [-87.3, 88.3]
  double worst_tanh = 0;   // absolute error of tanh8 over [-20, 20]
  bool limits = true;      // exp of -infinity, very negative, very large, NaN and 0
  bool lanes_agree = true; // every lane gives what lane 0 gives
};

inline float exp_lane(float x, int lane) {
  float lanes[8];
  store8(lanes, exp8(splat(x)));
  return lanes[lane];
}

ExpReport measure_exp() {
  ExpReport report;
  for (int i = 0; i <= 400000; ++i) {
    const float x = -87.3F + 175.6F * static_cast<float>(i) / 400000.0F;
    const double wanted = std::exp(static_cast<double>(x));
    const float got = exp_lane(x, 0);
    const double ulp = std::ldexp(1.0, std::ilogb(wanted) - 23);
    const double off = std::fabs(got - wanted) / ulp;
    report.worst_ulp = off > report.worst_ulp ? off : report.worst_ulp;
    if (exp_lane(x, i % 8) != got) report.lanes_agree = false;
  }
  for (int i = 0; i <= 100000; ++i) {
    const float x = -20.0F + 40.0F * static_cast<float>(i) / 100000.0F;
    float lanes[8];
    store8(lanes, tanh8(splat(x)));
    const double off = std::fabs(lanes[0] - std::tanh(static_cast<double>(x)));
    report.worst_tanh = off > report.worst_tanh ? off : report.worst_tanh;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  report.limits = exp_lane(-infinity, 0) == 0 && exp_lane(-100, 0) == 0 && exp_lane(infinity, 0) == infinity &&
                  exp_lane(100, 0) == infinity && exp_lane(0, 0) == 1 &&
                  // Payloads as poisoned memory has them: adding an exponent to their bits must not make a number.
                  std::isnan(exp_lane(std::bit_cast<float>(0x7FA00ABCU), 0)) &&
                  std::isnan(exp_lane(std::bit_cast<float>(0xFFFFFFFFU), 0));
  return report;
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
