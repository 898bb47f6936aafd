// Shape cases of the small ops. Compiled into the test binary only.
#include <fmt/format.h>

#include <array>

#include "kernels/conformance/bounds.h"
#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {
namespace {

ShapeCase gather_case(std::int32_t rows, std::int32_t in_rows, std::int32_t cols) {
  const GatherArgs args{.out = given<float>(),
                        .in = given<const float>(),
                        .indices = given<const std::int32_t>(),
                        .in_rows = in_rows,
                        .cols = cols,
                        .rows = rows};
  return make_case(fmt::format("rows={} of {} cols={}", rows, in_rows, cols), args, rows,
                   [](const GatherArgs& a, Random& random) {
                     random.values(writable(a.in), std::int64_t{a.in_rows} * a.cols);
                     for (std::int32_t r = 0; r < a.rows; ++r) writable(a.indices)[r] = random.below(a.in_rows);
                   });
}

// Three sequences of which the last is skipped in some rows; the others ascend as rows of a chunk do.
ShapeCase advance_case(std::int32_t rows) {
  const AdvanceArgs args{.lengths = given<std::int32_t>(),
                         .positions = given<const std::int32_t>(),
                         .sequences = given<const std::int32_t>(),
                         .sequence_count = 5,
                         .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={}", rows), args, rows, [](const AdvanceArgs& a, Random& random) {
    const std::int32_t first = random.below(100000);
    for (std::int32_t s = 0; s < a.sequence_count; ++s) a.lengths[s] = s;
    for (std::int32_t r = 0; r < a.rows; ++r) {
      writable(a.positions)[r] = first + r;
      writable(a.sequences)[r] = r % 4 == 3 ? -1 : r % 3;
    }
  });
  c.rows_independent = false;  // lengths are state: rows of one sequence write the same cell
  return c;
}

// Edits twice the rows' number: every row has some, none, or several of one token.
ShapeCase edit_logits_case(std::int32_t rows, std::int32_t vocab) {
  const EditLogitsArgs args{.logits = given<float>(),
                            .edits = given<const LogitEdit>(),
                            .offsets = given<const std::int32_t>(),
                            .edits_limit = 2 * rows + 1,
                            .vocab = vocab,
                            .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} vocab={}", rows, vocab), args, rows, [](const EditLogitsArgs& a, Random& random) {
    random.values(a.logits.get(), std::int64_t{a.rows} * a.vocab);
    for (std::int32_t i = 0; i < a.edits_limit; ++i) {
      writable(a.edits)[i] = {random.below(a.vocab), i % 3 == 0 ? 1.3F : 1.0F, i % 2 == 0 ? random.value() : 0.0F};
    }
    for (std::int32_t r = 0; r <= a.rows; ++r) writable(a.offsets)[r] = r % 3 == 1 ? 2 * r - 2 : 2 * r;
  });
  set_bounds<EditLogitsArgs>(c, [](const EditLogitsArgs& a) {
    Bound bound{"logits", {}};
    double most = 0;  // each of at most four edits of a logit rounds twice
    for (std::int32_t i = 0; i < a.edits_limit; ++i) most += std::abs(static_cast<double>(a.edits[i].add));
    for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.vocab; ++i) {
      bound.absolute.push_back(8 * kU * (4 * std::abs(static_cast<double>(a.logits[i])) + most));
    }
    return std::vector{bound};
  });
  c.rows_independent = false;  // offsets of a row are absolute
  return c;
}

// Masked rows between free ones; the masks stand in another order than the rows. Words hold few bits, many, none and all.
ShapeCase mask_logits_case(std::int32_t rows, std::int32_t vocab) {
  const MaskLogitsArgs args{.logits = given<float>(),
                            .masks = given<const std::uint32_t>(),
                            .mask_of = given<const std::int32_t>(),
                            .mask_count = rows + 1,
                            .vocab = vocab,
                            .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} vocab={}", rows, vocab), args, rows, [](const MaskLogitsArgs& a, Random& random) {
    random.values(a.logits.get(), std::int64_t{a.rows} * a.vocab);
    for (std::int64_t i = 0; i < std::int64_t{a.mask_count} * mask_words(a.vocab); ++i) {
      const auto bits = static_cast<std::uint32_t>(random.bits());
      writable(a.masks)[i] = i % 4 == 0 ? bits & static_cast<std::uint32_t>(random.bits()) : i % 4 == 1 ? bits : i % 4 == 2 ? 0 : ~0U;
    }
    for (std::int32_t r = 0; r < a.rows; ++r) writable(a.mask_of)[r] = r % 3 == 1 ? -1 : a.rows - r;
  });
  return c;
}

ShapeCase digest_case(std::int32_t rows, std::int32_t cols) {
  const DigestArgs args{.out = given<std::uint64_t>(), .in = given<const float>(), .cols = cols, .rows = rows};
  return make_case(fmt::format("rows={} cols={}", rows, cols), args, rows, [](const DigestArgs& a, Random& random) {
    random.values(writable(a.in), std::int64_t{a.rows} * a.cols);
  });
}

ShapeCase glu_case(std::int32_t rows, std::int32_t cols, GluKind kind, bool in_place) {
  const GluArgs args{.out = given<float>(),
                     .gate = given<const float>(),
                     .up = given<const float>(),
                     .spec = {.kind = kind},
                     .cols = cols,
                     .rows = rows};
  ShapeCase c = make_case(fmt::format("{} rows={} cols={}{}", kind == GluKind::silu ? "silu" : "clamped", rows, cols,
                                      in_place ? " in place" : ""),
                          args, rows, [](const GluArgs& a, Random& random) {
                            const std::int64_t n = std::int64_t{a.rows} * a.cols;
                            random.values(writable(a.gate), n);
                            random.values(writable(a.up), n);
                            // Both sides of the clamps, and where exp overflows and vanishes.
                            const float hard[] = {7, -7, 7.0001F, 100, -100, 60, -60, 0, -0.0F};
                            for (std::int64_t i = 0; i < n; i += 5) writable(a.gate)[i] = hard[i / 5 % 9];
                            for (std::int64_t i = 2; i < n; i += 7) writable(a.up)[i] = hard[i / 7 % 9];
                          });
  set_bounds<GluArgs>(c, [](const GluArgs& a) {
    Bound bound{"out", {}};
    for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.cols; ++i) {
      bound.absolute.push_back(glu_bound(a.spec, a.gate[i], a.up[i], 0, 0));
    }
    return std::vector{bound};
  });
  if (in_place) c.aliases = {{"out", "gate"}};
  return c;
}

ShapeCase rms_norm_case(std::int32_t rows, std::int32_t groups, std::int32_t cols, bool in_place) {
  const RmsNormArgs args{.out = given<float>(),
                         .in = given<const float>(),
                         .weight = given<const float>(),
                         .eps = 1e-5F,
                         .groups = groups,
                         .cols = cols,
                         .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} groups={} cols={}{}", rows, groups, cols, in_place ? " in place" : ""), args,
                          rows, [](const RmsNormArgs& a, Random& random) {
                            random.values(writable(a.in), std::int64_t{a.rows} * a.groups * a.cols);
                            random.values(writable(a.weight), a.cols);
                          });
  set_bounds<RmsNormArgs>(c, [](const RmsNormArgs& a) {
    // The squares are positive, so their sum is relatively as good as its depth; the root halves that. Then the mean, eps,
    // the root, the quotient and two products, and the reference's rounding.
    const double relative = ((a.cols + 31) / 32 / 2.0 + 10) * kU;
    Bound bound{"out", {}};
    for (std::int64_t g = 0; g < std::int64_t{a.rows} * a.groups; ++g) {
      double squares = 0;
      for (std::int64_t i = 0; i < a.cols; ++i) squares += double{a.in[g * a.cols + i]} * a.in[g * a.cols + i];
      const double factor = 1 / std::sqrt(squares / a.cols + a.eps);
      for (std::int64_t i = 0; i < a.cols; ++i) {
        bound.absolute.push_back(relative * std::fabs(a.in[g * a.cols + i] * factor * a.weight[i]));
      }
    }
    return std::vector{bound};
  });
  if (in_place) c.aliases = {{"out", "in"}};
  return c;
}

ShapeCase rope_table_case(std::int32_t rows, std::int32_t pairs) {
  const RopeTableArgs args{.out = given<float>(),
                           .positions = given<const std::int32_t>(),
                           .frequencies = given<const float>(),
                           .concentration = 1.3466F,
                           .pairs = pairs,
                           .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} pairs={}", rows, pairs), args, rows,
                          [](const RopeTableArgs& a, Random& random) {
                            for (std::int32_t r = 0; r < a.rows; ++r) writable(a.positions)[r] = random.below(131072);
                            for (std::int32_t i = 0; i < a.pairs; ++i) {
                              writable(a.frequencies)[i] = static_cast<float>(std::pow(150000.0, -1.0 * i / a.pairs));
                            }
                          });
  set_bounds<RopeTableArgs>(c, [](const RopeTableArgs& a) {
    // The angle is the same float; the rest is double, rounded once.
    return std::vector{Bound{"out", std::vector<double>(std::size_t(a.rows) * a.pairs * 2, kU * a.concentration)}};
  });
  return c;
}

ShapeCase rope_case(std::int32_t rows, std::int32_t heads, std::int32_t head_dim, std::int32_t pairs, RopePairing pairing) {
  const RopeArgs args{.x = given<float>(),
                      .table = given<const float>(),
                      .pairing = pairing,
                      .heads = heads,
                      .head_dim = head_dim,
                      .pairs = pairs,
                      .rows = rows};
  ShapeCase c = make_case(fmt::format("{} rows={} heads={} head_dim={} pairs={}",
                                      pairing == RopePairing::halves ? "halves" : "adjacent", rows, heads, head_dim, pairs),
                          args, rows, [](const RopeArgs& a, Random& random) {
                            random.values(a.x.get(), std::int64_t{a.rows} * a.heads * a.head_dim);
                            random.values(writable(a.table), std::int64_t{a.rows} * a.pairs * 2);
                          });
  set_bounds<RopeArgs>(c, [](const RopeArgs& a) {
    // Two products, their difference, the reference's rounding.
    Bound bound{"x", std::vector<double>(std::size_t(a.rows) * a.heads * a.head_dim, 0.0)};
    for (std::int64_t h = 0; h < std::int64_t{a.rows} * a.heads; ++h) {
      for (std::int64_t i = 0; i < a.pairs; ++i) {
        const std::int64_t first = h * a.head_dim + (a.pairing == RopePairing::halves ? i : 2 * i);
        const std::int64_t second = h * a.head_dim + (a.pairing == RopePairing::halves ? i + a.pairs : 2 * i + 1);
        const double cosine = std::fabs(a.table[(h / a.heads * a.pairs + i) * 2]);
        const double sine = std::fabs(a.table[(h / a.heads * a.pairs + i) * 2 + 1]);
        const double p = std::fabs(a.x[first]);
        const double q = std::fabs(a.x[second]);
        bound.absolute[static_cast<std::size_t>(first)] = 3 * kU * (p * cosine + q * sine);
        bound.absolute[static_cast<std::size_t>(second)] = 3 * kU * (q * cosine + p * sine);
      }
    }
    return std::vector{bound};
  });
  return c;
}

// `levels` > 0: logits take that many different values, so most choices are ties.
ShapeCase route_case(std::int32_t rows, std::int32_t experts, std::int32_t top_k, std::int32_t levels) {
  const RouteArgs args{.experts = given<std::int32_t>(),
                       .weights = given<float>(),
                       .logits = given<const float>(),
                       .expert_count = experts,
                       .top_k = top_k,
                       .rows = rows};
  ShapeCase c = make_case(fmt::format("rows={} experts={} top_k={} levels={}", rows, experts, top_k, levels), args, rows,
                          [levels](const RouteArgs& a, Random& random) {
                            for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.expert_count; ++i) {
                              writable(a.logits)[i] = levels > 0 ? static_cast<float>(random.below(levels)) : random.value();
                            }
                          });
  set_bounds<RouteArgs>(c, [](const RouteArgs& a) {
    // A weight is a quotient of exps: each within 4 u and its argument within u * spread; top_k additions, and 3 roundings.
    Bound bound{"weights", {}};
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const float* logits = a.logits.get() + r * a.expert_count;
      const auto [lo, hi] = std::minmax_element(logits, logits + a.expert_count);
      const double relative = (2 * (4 + double{*hi} - *lo) + a.top_k + 3) * kU;
      for (std::int32_t i = 0; i < a.top_k; ++i) bound.absolute.push_back(relative);  // of weights, which are at most 1
    }
    return std::vector{bound};
  });
  return c;
}

}  // namespace

std::vector<ShapeCase> row_cases() {
  std::vector<ShapeCase> cases;
  for (const auto [rows, cols] : {std::array{1, 1}, {3, 4096}, {5, 61}}) cases.push_back(digest_case(rows, cols));
  for (const std::int32_t rows : {1, 5, 40}) cases.push_back(advance_case(rows));
  cases.push_back(edit_logits_case(1, 3));
  cases.push_back(edit_logits_case(7, 4096));
  cases.push_back(edit_logits_case(33, 50));
  cases.push_back(mask_logits_case(1, 1));
  cases.push_back(mask_logits_case(7, 4096));
  cases.push_back(mask_logits_case(33, 50));
  cases.push_back(gather_case(1, 1, 1));
  cases.push_back(gather_case(5, 9, 67));
  cases.push_back(gather_case(6, 3, 32));
  for (const GluKind kind : {GluKind::silu, GluKind::clamped_silu}) {
    cases.push_back(glu_case(1, 3, kind, false));
    cases.push_back(glu_case(1, 2880, kind, false));
    cases.push_back(glu_case(7, 37, kind, true));
  }
  for (const auto [rows, groups, cols] :
       {std::array{1, 1, 2880}, {5, 1, 256}, {3, 7, 64}, {2, 2, 8}, {4, 1, 37}, {3, 3, 1}, {2, 1, 32 * 4 + 9}}) {
    cases.push_back(rms_norm_case(rows, groups, cols, false));
    cases.push_back(rms_norm_case(rows, groups, cols, true));
  }
  for (const auto [rows, pairs] : {std::array{1, 32}, {9, 4}, {5, 17}, {3, 128}}) cases.push_back(rope_table_case(rows, pairs));
  for (const RopePairing pairing : {RopePairing::halves, RopePairing::adjacent}) {
    for (const auto [rows, heads, head_dim, pairs] :
         {std::array{1, 8, 64, 32}, {5, 7, 8, 4}, {3, 1, 256, 128}, {4, 3, 40, 11}, {2, 2, 24, 12}}) {
      cases.push_back(rope_case(rows, heads, head_dim, pairs, pairing));
    }
  }
  for (const std::int32_t experts : {1, 3, 8, 32, 128}) {
    for (std::int32_t top_k = 1; top_k <= std::min(experts, kMaxTopK); top_k = top_k < 8 ? top_k + 1 : top_k * 2) {
      cases.push_back(route_case(5, experts, top_k, 0));
      cases.push_back(route_case(6, experts, top_k, 3));
    }
  }
  return cases;
}

}  // namespace plumb::kernels::conformance
