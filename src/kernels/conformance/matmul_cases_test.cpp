// Shape cases of matmul and embed. Compiled into the test binary only.
#include <fmt/format.h>

#include <cstring>

#include "kernels/conformance/shape_case.h"
#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels::conformance {
namespace {

struct MatmulShape {
  std::int32_t rows;
  std::int32_t n;
  std::int32_t k;
  bool bias;
  bool accumulate;
  std::int64_t gap;
  bool extreme = false;  // packed: every product at its largest
};

// The largest weights and codes of the format, so that every partial sum of a q8 product is at its limit.
void make_extreme(const MatmulArgs& a) {
  const auto code = [&] {
    switch (a.weight.format) {
      case WeightFormat::q8_0_r8: return 0x80;
      case WeightFormat::mxfp4_r8:
      case WeightFormat::nvfp4_r8: return 0x77;
      case WeightFormat::q4_1_r8:
      case WeightFormat::q4_k_r8:
      case WeightFormat::q5_k_r8: return 0xFF;
      default: return 0x00;
    }
  }();
  std::memset(const_cast<std::byte*>(a.weight.data.get()), code, weight_data_extent(a.weight));
  std::vector<float> ones(static_cast<std::size_t>(a.rows) * a.weight.cols, 1.0F);
  for (std::int64_t i = 0; i < a.weight.cols; ++i) ones[static_cast<std::size_t>(i)] = -1.0F;  // the first row
  reference(QuantizeArgs{.out = host_ref(const_cast<std::byte*>(a.in_q8.get())),
                         .in = host_ref<const float>(ones.data()),
                         .cols = a.weight.cols,
                         .rows = a.rows});
}

std::vector<Bound> matmul_bounds(const MatmulArgs& a) {
  Bound bound{"out", {}};
  bound.absolute.resize(static_cast<std::size_t>(a.rows) * a.weight.rows);
  std::vector<std::vector<double>> in;
  for (std::int64_t r = 0; r < a.rows; ++r) in.push_back(activation_row(a.in, a.in_q8, r, a.weight.cols));
  for (std::int64_t n = 0; n < a.weight.rows; ++n) {
    const std::vector<double> weight = weight_magnitudes(a.weight, 0, n);
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::vector<double>& x = in[static_cast<std::size_t>(r)];
      double terms = a.bias ? std::fabs(a.bias[n]) : 0.0;
      if (a.accumulate != 0) terms += std::fabs(a.out[r * a.weight.rows + n]);
      for (std::size_t k = 0; k < x.size(); ++k) terms += std::fabs(x[k] * weight[k]);
      bound.absolute[static_cast<std::size_t>(r * a.weight.rows + n)] = dot_bound(a.weight.cols) * terms;
    }
  }
  return {bound};
}

ShapeCase matmul_case(WeightFormat format, MatmulShape s) {
  s.k *= stretch(format);
  MatmulArgs args{.out = given<float>(),
                  .weight = weight_shape(format, s.n, s.k, 1, s.gap),
                  .accumulate = s.accumulate ? 1 : 0,
                  .rows = s.rows};
  if (is_packed(format)) {
    args.in_q8 = given<const std::byte>();
  } else {
    args.in = given<const float>();
  }
  if (s.bias) args.bias = given<const float>();
  ShapeCase c = make_case(fmt::format("{} rows={} n={} k={}{}{} gap={}{}", traits(format).name, s.rows, s.n, s.k,
                                      s.bias ? " bias" : "", s.accumulate ? " accumulate" : "", s.gap, s.extreme ? " extreme" : ""),
                          args, s.rows, [extreme = s.extreme](const MatmulArgs& a, Random& random) {
                            if (a.in) random.values(const_cast<float*>(a.in.get()), std::int64_t{a.rows} * a.weight.cols);
                            if (a.in_q8) fill_q8(a.in_q8.get(), a.rows, a.weight.cols, random);
                            fill_weight(a.weight, random);
                            if (extreme) make_extreme(a);
                            if (a.bias) random.values(const_cast<float*>(a.bias.get()), a.weight.rows);
                            if (a.accumulate != 0) random.values(a.out.get(), std::int64_t{a.rows} * a.weight.rows);
                          });
  set_bounds<MatmulArgs>(c, matmul_bounds);
  c.misaligned = {"weight", "weight_scales"};
  return c;
}

ShapeCase embed_case(WeightFormat format, std::int32_t rows, std::int32_t vocab, std::int32_t hidden, std::int32_t cells) {
  hidden *= stretch(format);
  const EmbedArgs args{.out = given<float>(),
                       .tokens = given<const std::int32_t>(),
                       .sources = given<const std::int32_t>(),
                       .relay = cells > 0 ? given<const std::int32_t>() : Ref<const std::int32_t>{},
                       .table = weight_shape(format, vocab, hidden, 1, 3),
                       .relay_cells = cells,
                       .rows = rows};
  ShapeCase c = make_case(fmt::format("{} rows={} vocab={} hidden={} cells={}", traits(format).name, rows, vocab, hidden, cells),
                          args, rows, [](const EmbedArgs& a, Random& random) {
                            fill_weight(a.table, random);
                            auto* relay = const_cast<std::int32_t*>(a.relay.get());
                            for (std::int32_t i = 0; i < a.relay_cells; ++i) relay[i] = random.below(a.table.rows);
                            auto* tokens = const_cast<std::int32_t*>(a.tokens.get());
                            auto* sources = const_cast<std::int32_t*>(a.sources.get());
                            for (std::int32_t r = 0; r < a.rows; ++r) {
                              const bool relayed = a.relay_cells > 0 && random.below(2) == 0;
                              sources[r] = relayed ? random.below(a.relay_cells) : -1;
                              tokens[r] = relayed ? 0x7FFFFFFF : random.below(a.table.rows);
                            }
                          });
  // Equal as numbers: E2M1 has a -0 that a kernel may read as +0.
  set_bounds<EmbedArgs>(c, [](const EmbedArgs& a) {
    return std::vector{Bound{"out", std::vector<double>(std::size_t(a.rows) * a.table.cols, 0.0)}};
  });
  c.misaligned = {"table", "table_scales"};
  return c;
}

}  // namespace

std::vector<ShapeCase> matmul_cases() {
  std::vector<ShapeCase> cases;
  for (const WeightFormat format : stored_formats()) {
    for (const MatmulShape& s : std::initializer_list<MatmulShape>{
             {1, 1, 32, false, false, 0},
             {1, 67, 96, true, false, 1},     // several one-row tasks, a tail of each kind
             {2, 64, 64, false, true, 0},
             {3, 7, 288, true, true, 7},      // fewer rows and outputs than a tile
             {4, 24, 32, true, false, 0},     // whole tiles
             {9, 50, 160, false, false, 3},
             {133, 11, 64, true, true, 0},    // more than one block of rows
             {2, 250, 320, false, false, 0},  // more than one panel
             {2, 4, 21888, false, false, 0},  // rows too long for a panel: decoded again for each row
         }) {
      cases.push_back(matmul_case(format, s));
    }
    if (traits(format).block == 1) {
      for (const std::int32_t k : {1, 7, 8, 12, 40, 33, 63}) cases.push_back(matmul_case(format, {1 + k % 6, 5, k, true, false, 2}));
    }
    cases.push_back(embed_case(format, 5, 11, 64, 3));
    cases.push_back(embed_case(format, 1, 3, 32, 0));
    cases.push_back(embed_case(format, 30, 100, 288, 9));
    if (traits(format).block == 1) cases.push_back(embed_case(format, 4, 5, 13, 1));
  }
  for (const WeightFormat format : packed_formats()) {
    for (const MatmulShape& s : std::initializer_list<MatmulShape>{
             {1, 1, 32, false, false, 0},
             {1, 67, 96, true, false, 0},   // several tasks, the last group not whole
             {2, 64, 64, false, true, 0},
             {3, 7, 288, true, true, 0},
             {8, 24, 32, true, false, 0},   // a whole tile of rows
             {15, 50, 160, false, false, 0},  // a tile of each kind
             {133, 11, 64, true, true, 0},  // more than one block of rows
             {2, 560, 320, false, false, 0},
             {11, 16, 64, false, false, 0, true},
         }) {
      cases.push_back(matmul_case(format, s));
    }
  }
  return cases;
}

}  // namespace plumb::kernels::conformance
