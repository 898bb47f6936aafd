// Shape cases of the mixture-of-experts ops. Compiled into the test binary only.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/conformance/bounds.h"
#include "kernels/conformance/shape_case.h"
#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels::conformance {
namespace {

// Distinct random experts for each row; expert 1 is never chosen when there is another way.
std::vector<std::int32_t> choose_experts(std::int32_t rows, std::int32_t top_k, std::int32_t experts, Random& random) {
  std::vector<std::int32_t> chosen;
  for (std::int32_t r = 0; r < rows; ++r) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    if (top_k < experts) all.erase(all.begin() + std::min(1, experts - 1));
    for (std::int32_t c = 0; c < top_k; ++c) {
      const auto at = static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size())));
      chosen.push_back(all[at]);
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return chosen;
}

// What moe_group leaves, through its reference.
void group(const std::int32_t* chosen, std::int32_t rows, std::int32_t top_k, std::int32_t experts, std::int32_t* offsets,
           std::int32_t* order) {
  reference(MoeGroupArgs{.offsets = host_ref(offsets),
                         .order = host_ref(order),
                         .experts = host_ref(chosen),
                         .expert_count = experts,
                         .top_k = top_k,
                         .rows = rows});
}

// The experts of a case are a function of its sizes, so that one row can be grouped again alone.
template <class Args>
std::vector<std::int32_t> experts_of(const Args& a, std::int32_t rows, std::int32_t experts) {
  Random random(static_cast<std::uint64_t>(experts) * 977 + static_cast<std::uint64_t>(a.top_k));
  return choose_experts(rows, a.top_k, experts, random);
}
template <class Args>
void group_rows(const Args& a, std::int32_t experts) {
  const auto chosen = experts_of(a, a.rows, experts);
  group(chosen.data(), a.rows, a.top_k, experts, const_cast<std::int32_t*>(a.offsets.get()),
        const_cast<std::int32_t*>(a.order.get()));
}
template <class Args>
void group_one(const Args& a, std::int32_t row, std::int32_t experts) {
  const auto chosen = experts_of(a, row + 1, experts);
  group(chosen.data() + std::int64_t{row} * a.top_k, 1, a.top_k, experts, const_cast<std::int32_t*>(a.offsets.get()),
        const_cast<std::int32_t*>(a.order.get()));
}

struct MoeShape {
  std::int32_t rows;
  std::int32_t top_k;
  std::int32_t experts;
  std::int32_t hidden;
  std::int32_t ffn;
  bool bias;
  bool interleaved;
};

template <class Args>
void give_activations(Args& a, WeightFormat format) {
  if (is_packed(format)) {
    a.in_q8 = given<const std::byte>();
  } else {
    a.in = given<const float>();
  }
}
template <class Args>
void fill_activations(const Args& a, std::int64_t vectors, std::int64_t cols, Random& random) {
  if (a.in) random.values(const_cast<float*>(a.in.get()), vectors * cols);
  if (a.in_q8) fill_q8(a.in_q8.get(), vectors, cols, random);
}

struct Sum {
  double value = 0;
  double terms = 0;  // sum of magnitudes
  void add(double x) { add(x, std::fabs(x)); }
  void add(double x, double magnitude) {
    value += x;
    terms += magnitude;
  }
};

std::vector<Bound> glu_bounds(const MoeGluArgs& a) {
  Bound bound{"out", {}};
  bound.absolute.resize(static_cast<std::size_t>(a.rows) * a.top_k * a.gate.rows);
  std::vector<std::vector<double>> in;
  for (std::int64_t r = 0; r < a.rows; ++r) in.push_back(activation_row(a.in, a.in_q8, r, a.gate.cols));
  for (std::int64_t e = 0; e < a.gate.experts; ++e) {
    for (std::int64_t i = 0; i < a.gate.rows; ++i) {
      const auto gate_row = weight_row(a.gate, e, i);
      const auto up_row = weight_row(a.up, e, i);
      const auto gate_magnitudes = weight_magnitudes(a.gate, e, i);
      const auto up_magnitudes = weight_magnitudes(a.up, e, i);
      for (std::int64_t at = a.offsets[e]; at < a.offsets[e + 1]; ++at) {
        const std::vector<double>& x = in[static_cast<std::size_t>(a.order[at] / a.top_k)];
        Sum gate;
        Sum up;
        for (std::size_t k = 0; k < x.size(); ++k) {
          gate.add(x[k] * gate_row[k], std::fabs(x[k]) * gate_magnitudes[k]);
          up.add(x[k] * up_row[k], std::fabs(x[k]) * up_magnitudes[k]);
        }
        const std::int64_t b = e * a.bias_expert_stride + i * a.bias_stride;
        if (a.gate_bias) {
          gate.add(a.gate_bias[b]);
          up.add(a.up_bias[b]);
        }
        bound.absolute[static_cast<std::size_t>(a.order[at] * std::int64_t{a.gate.rows} + i)] =
            glu_bound(a.spec, gate.value, up.value, dot_bound(a.gate.cols) * gate.terms, dot_bound(a.gate.cols) * up.terms);
      }
    }
  }
  return {bound};
}

std::vector<Bound> down_bounds(const MoeDownArgs& a) {
  Bound bound{"out", {}};
  bound.absolute.resize(static_cast<std::size_t>(a.rows) * a.top_k * a.down.rows);
  std::vector<std::vector<double>> in;
  for (std::int64_t p = 0; p < std::int64_t{a.rows} * a.top_k; ++p) in.push_back(activation_row(a.in, a.in_q8, p, a.down.cols));
  for (std::int64_t e = 0; e < a.down.experts; ++e) {
    for (std::int64_t n = 0; n < a.down.rows; ++n) {
      const auto row = weight_magnitudes(a.down, e, n);
      for (std::int64_t at = a.offsets[e]; at < a.offsets[e + 1]; ++at) {
        Sum sum;
        const std::vector<double>& x = in[static_cast<std::size_t>(a.order[at])];
        for (std::size_t k = 0; k < x.size(); ++k) sum.add(x[k] * row[k]);
        if (a.bias) sum.add(a.bias[e * a.down.rows + n]);
        bound.absolute[static_cast<std::size_t>(a.order[at] * std::int64_t{a.down.rows} + n)] =
            dot_bound(a.down.cols) * sum.terms;
      }
    }
  }
  return {bound};
}

std::string name_of(WeightFormat format, const MoeShape& s) {
  return fmt::format("{} rows={} top_k={} experts={} hidden={} ffn={}{}{}", traits(format).name, s.rows, s.top_k, s.experts,
                     s.hidden, s.ffn, s.bias ? " bias" : "", s.interleaved ? " interleaved" : "");
}

ShapeCase moe_glu_case(WeightFormat format, MoeShape s, GluKind kind) {
  s.hidden *= stretch(format);
  // Interleaved: gate and up rows alternate in one tensor, or packed groups of rows. Each view then has a gap as long as a row after each
  // row, or as long as a group after each group.
  WeightView view = weight_shape(format, s.ffn, s.hidden, s.experts);
  if (s.interleaved) {
    view.row_stride *= 2;
    view.expert_stride *= 2;
    view.scale_row_stride *= 2;
    view.scale_expert_stride *= 2;
  }
  MoeGluArgs args{.out = given<float>(),
                  .offsets = given<const std::int32_t>(),
                  .order = given<const std::int32_t>(),
                  .gate = view,
                  .up = view,
                  .bias_expert_stride = s.interleaved ? 2 * s.ffn : s.ffn,
                  .bias_stride = s.interleaved ? 2 : 1,
                  .spec = {.kind = kind},
                  .top_k = s.top_k,
                  .rows = s.rows};
  give_activations(args, format);
  if (s.bias) {
    args.gate_bias = given<const float>();
    args.up_bias = given<const float>();
  }
  ShapeCase c = make_case(name_of(format, s) + (kind == GluKind::silu ? " silu" : " clamped"), args, s.rows,
                          [](const MoeGluArgs& a, Random& random) {
                            fill_activations(a, a.rows, a.gate.cols, random);
                            fill_weight(a.gate, random);
                            fill_weight(a.up, random);
                            for (std::int64_t e = 0; a.gate_bias && e < a.gate.experts; ++e) {
                              for (std::int64_t i = 0; i < a.gate.rows; ++i) {
                                const std::int64_t at = e * a.bias_expert_stride + i * a.bias_stride;
                                const_cast<float*>(a.gate_bias.get())[at] = random.value();
                                const_cast<float*>(a.up_bias.get())[at] = random.value();
                              }
                            }
                            group_rows(a, a.gate.experts);
                          });
  set_bounds<MoeGluArgs>(c, glu_bounds);
  c.isolate = [](const void* args_, std::int32_t row) {
    const auto& a = *static_cast<const MoeGluArgs*>(args_);
    group_one(a, row, a.gate.experts);
  };
  c.misaligned = {"gate", "gate_scales", "up", "up_scales"};
  return c;
}

ShapeCase moe_down_case(WeightFormat format, MoeShape s) {
  s.ffn *= stretch(format);
  MoeDownArgs args{.out = given<float>(),
                   .offsets = given<const std::int32_t>(),
                   .order = given<const std::int32_t>(),
                   .down = weight_shape(format, s.hidden, s.ffn, s.experts, is_packed(format) ? 0 : 1),
                   .top_k = s.top_k,
                   .rows = s.rows};
  give_activations(args, format);
  if (s.bias) args.bias = given<const float>();
  ShapeCase c = make_case(name_of(format, s), args, s.rows, [](const MoeDownArgs& a, Random& random) {
    fill_activations(a, std::int64_t{a.rows} * a.top_k, a.down.cols, random);
    fill_weight(a.down, random);
    if (a.bias) random.values(const_cast<float*>(a.bias.get()), std::int64_t{a.down.experts} * a.down.rows);
    group_rows(a, a.down.experts);
  });
  set_bounds<MoeDownArgs>(c, down_bounds);
  c.isolate = [](const void* args_, std::int32_t row) {
    const auto& a = *static_cast<const MoeDownArgs*>(args_);
    group_one(a, row, a.down.experts);
  };
  c.misaligned = {"down", "down_scales"};
  return c;
}

ShapeCase moe_group_case(std::int32_t rows, std::int32_t top_k, std::int32_t experts) {
  const MoeGroupArgs args{.offsets = given<std::int32_t>(),
                          .order = given<std::int32_t>(),
                          .experts = given<const std::int32_t>(),
                          .expert_count = experts,
                          .top_k = top_k,
                          .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} top_k={} experts={}", rows, top_k, experts), args, rows,
                          [](const MoeGroupArgs& a, Random& random) {
                            const auto chosen = choose_experts(a.rows, a.top_k, a.expert_count, random);
                            std::copy(chosen.begin(), chosen.end(), const_cast<std::int32_t*>(a.experts.get()));
                          });
  c.rows_independent = false;
  return c;
}

ShapeCase moe_combine_case(std::int32_t rows, std::int32_t top_k, std::int32_t cols) {
  const MoeCombineArgs args{.x = given<float>(),
                            .in = given<const float>(),
                            .weights = given<const float>(),
                            .cols = cols,
                            .top_k = top_k,
                            .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} top_k={} cols={}", rows, top_k, cols), args, rows,
                          [](const MoeCombineArgs& a, Random& random) {
                            random.values(a.x.get(), std::int64_t{a.rows} * a.cols);
                            random.values(const_cast<float*>(a.in.get()), std::int64_t{a.rows} * a.top_k * a.cols);
                            random.values(const_cast<float*>(a.weights.get()), std::int64_t{a.rows} * a.top_k);
                          });
  set_bounds<MoeCombineArgs>(c, [](const MoeCombineArgs& a) {
    Bound bound{"x", {}};
    for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.cols; ++i) {
      const std::int64_t r = i / a.cols;
      double terms = std::fabs(a.x[i]);
      for (std::int64_t j = 0; j < a.top_k; ++j) {
        terms += std::fabs(double{a.weights[r * a.top_k + j]} * a.in[(r * a.top_k + j) * a.cols + i % a.cols]);
      }
      bound.absolute.push_back((a.top_k + 3) * kU * terms);  // a product and an addition for each choice, and the residual's
    }
    return std::vector{bound};
  });
  return c;
}

}  // namespace

std::vector<ShapeCase> moe_cases() {
  std::vector<ShapeCase> cases;
  std::vector<WeightFormat> formats = stored_formats();
  for (const WeightFormat format : packed_formats()) formats.push_back(format);
  for (const WeightFormat format : formats) {
    for (const MoeShape& s : std::initializer_list<MoeShape>{
             {1, 1, 1, 32, 32, false, false},
             {1, 4, 8, 64, 96, true, true},
             {7, 2, 5, 96, 33 * 32, true, false},  // more than one panel
             {40, 3, 4, 32, 64, true, true},       // many rows for each expert
             {40, 3, 4, 64, 32, true, false},
         }) {
      if (stretch(format) > 2 && s.ffn > 1000) continue;  // what a block is does not change how panels are cut
      cases.push_back(moe_glu_case(format, s, GluKind::clamped_silu));
      cases.push_back(moe_down_case(format, s));
    }
    cases.push_back(moe_glu_case(format, {3, 2, 3, 64, 37, false, false}, GluKind::silu));
    cases.push_back(moe_down_case(format, {3, 2, 3, 37, 64, false, false}));
    cases.push_back(moe_down_case(format, {300, 1, 2, 19, 32, true, false}));  // more than one block of rows
  }
  for (const auto [rows, top_k, experts] : {std::array{1, 1, 1}, {1, 4, 32}, {9, 2, 8}, {100, 4, 128}, {3, 5, 5}}) {
    cases.push_back(moe_group_case(rows, top_k, experts));
  }
  for (const auto [rows, top_k, cols] : {std::array{1, 1, 8}, {1, 4, 2880}, {5, 2, 61}, {3, 8, 64}, {2, 3, 129}}) {
    cases.push_back(moe_combine_case(rows, top_k, cols));
  }
  return cases;
}

}  // namespace plumb::kernels::conformance
