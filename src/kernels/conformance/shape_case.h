// A shape case: one op with sizes, inputs and an error bound. What the conformance suite runs every kernel of the op on.
//
// The args are symbolic: a reference that is present has slot kHostSlot and offset 0 (`given`), and the suite puts memory behind
// it from the extents that the op's own visitor reports. All memory is NaN poison until `fill` writes the inputs of rows
// [0, rows); memory is laid out for max_rows, so whatever a kernel reads or writes beyond `rows` shows.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/counter_rng.h"
#include "kernels/api/ops.h"
#include "kernels/table.h"

namespace plumb::kernels::conformance {

// Fresh numbers, the same for the same seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : philox_{seed} {}
  std::uint32_t bits() { return philox_.block(next_++)[0]; }
  std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(bits() % static_cast<std::uint32_t>(n)); }
  // Bell-shaped around 0, deviation about 1, with one in 64 sixteen times larger: activations have outliers.
  float value() {
    const auto words = philox_.block(next_++);
    float sum = -2;
    for (const std::uint32_t word : words) sum += static_cast<float>(word >> 8) * 0x1p-24F;
    const float v = sum * 1.73F;
    return words[0] % 64 == 0 ? v * 16 : v;
  }
  void values(float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = value();
  }

 private:
  Philox philox_;
  std::uint64_t next_ = 0;
};

// How far each float of a written operand may be from the reference. Operands without a bound are compared bit for bit.
struct Bound {
  std::string operand;
  std::vector<double> absolute;
};

struct ShapeCase {
  std::string name;
  const OpDesc* op = nullptr;
  ArgsBlob args;
  std::int32_t rows = 0;
  std::int32_t max_rows = 0;
  std::function<void(const void* args, Random& random)> fill;
  std::function<std::vector<Bound>(const void* args)> bounds;  // from the inputs, before the op has run
  // Row r of the outputs depends on row r of the inputs only.
  bool rows_independent = true;
  // Completes the arguments of one row alone, where slicing every operand by its row stride is not enough (moe groups).
  std::function<void(const void* args, std::int32_t row)> isolate;
  std::vector<std::pair<std::string, std::string>> aliases;  // the second operand lies where the first does
  std::vector<std::string> misaligned;                       // operands that start at an odd address
};

template <class T>
Ref<T> given() {
  return {0, kHostSlot, 0};
}

// For `fill`: an op only reads its inputs, the case writes them.
template <class T>
T* writable(const Ref<const T>& ref) {
  return const_cast<T*>(ref.get());
}

template <class Args, class Fill>
ShapeCase make_case(std::string name, const Args& args, std::int32_t rows, Fill fill) {
  ShapeCase c;
  c.name = std::string(Args::kName) + "/" + std::move(name);
  c.op = &op<Args>();
  c.args = ArgsBlob(args);
  c.rows = rows;
  c.max_rows = rows + 3;
  c.fill = [fill](const void* bound, Random& random) { fill(*static_cast<const Args*>(bound), random); };
  return c;
}
template <class Args, class Bounds>
void set_bounds(ShapeCase& c, Bounds bounds) {
  c.bounds = [bounds](const void* bound) { return bounds(*static_cast<const Args*>(bound)); };
}

// All cases of all ops.
std::vector<ShapeCase> all_cases();
// Their parts, one for each <name>_cases_test.cpp.
std::vector<ShapeCase> matmul_cases();
std::vector<ShapeCase> moe_cases();
std::vector<ShapeCase> row_cases();
std::vector<ShapeCase> attention_cases();
std::vector<ShapeCase> gated_delta_cases();
std::vector<ShapeCase> sample_cases();
std::vector<ShapeCase> q8_cases();

// Half a unit in the last place of 1.0f: one rounding is at most u times the result.
inline constexpr double kU = 0x1p-24;

// Relative bound of a dot product against the sum of its terms' magnitudes, in the order of cpu/generic/dot.h or any order no
// deeper: a product's rounding, cols / 8 additions of a lane, 3 of the lanes, bias, residual, the reference's own rounding, and the
// weight's where its format adds an offset.
inline double dot_bound(std::int64_t cols) { return (static_cast<double>((cols + 7) / 8) + 8) * kU; }

// How many times longer a row must be to have as many blocks as a row of blocks of 32.
inline std::int32_t stretch(WeightFormat format) { return traits(format).block > 32 ? traits(format).block / 32 : 1; }

// Fills every row of a weight with finite random blocks whose values are of order 1.
void fill_weight(const WeightView& w, Random& random);
// A view of `experts` x `rows` x `cols` with a gap of `gap` bytes after each row (which stays poison).
WeightView weight_shape(WeightFormat format, std::int32_t rows, std::int32_t cols, std::int32_t experts = 1,
                        std::int64_t gap = 0);
// The formats a checkpoint can have, and the packed ones of the q8 path.
std::vector<WeightFormat> stored_formats();
std::vector<WeightFormat> packed_formats();
// Fills `vectors` q8 rows of `cols` with quantised random values.
void fill_q8(const std::byte* rows, std::int64_t vectors, std::int64_t cols, Random& random);

}  // namespace plumb::kernels::conformance
