// Shape cases of attention and kv_append. Compiled into the test binary only.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/conformance/shape_case.h"
#include "kernels/ref/kv_page.h"

namespace plumb::kernels::conformance {
namespace {

struct KvShape {
  std::int32_t page_rows;
  std::int32_t window;  // 0: full
  std::int32_t kv_heads;
  std::int32_t head_dim;
  KvFormat format = KvFormat::f32;
};

// One batch row.
struct At {
  std::int32_t sequence;
  std::int32_t position;
};

// Pages enough for `rows`, one spare page in the pool and one spare row of the table. Ring sizes are the least that hold the
// window, so rings wrap.
KvView kv_shape(const KvShape& s, const std::vector<At>& rows) {
  std::int32_t sequences = 1;
  std::int32_t last = 0;
  for (const At& at : rows) {
    sequences = std::max(sequences, at.sequence + 2);
    last = std::max(last, at.position);
  }
  const std::int32_t all = last / s.page_rows + 1;
  // The window of the lowest row of a sequence up to its highest row; the rows of one sequence span at most `last`.
  std::int32_t pages = all;
  if (s.window > 0) {
    std::int32_t span = 1;
    for (std::int32_t q = 0; q < sequences; ++q) {
      std::int32_t lo = std::numeric_limits<std::int32_t>::max();
      std::int32_t hi = -1;
      for (const At& at : rows) {
        if (at.sequence != q) continue;
        lo = std::min(lo, std::max(0, at.position - s.window + 1));
        hi = std::max(hi, at.position);
      }
      if (hi >= 0) span = std::max(span, hi / s.page_rows - lo / s.page_rows + 1);
    }
    pages = std::min(all, span);
  }
  return {.k = given<std::byte>(),
          .v = given<std::byte>(),
          .table = given<const std::int32_t>(),
          .format = s.format,
          .pages = sequences * pages + 1,
          .page_rows = s.page_rows,
          .table_pages = pages,
          .sequences = sequences,
          .kv_heads = s.kv_heads,
          .head_dim = s.head_dim,
          .window = s.window};
}

// Pages in a random order, only where a row of the batch needs them; kNoPage everywhere else.
void fill_table(const KvView& kv, const std::vector<At>& rows, bool visible_too, Random& random) {
  std::int32_t* table = writable(kv.table);
  std::fill(table, table + std::int64_t{kv.sequences} * kv.table_pages, kNoPage);
  std::vector<std::int32_t> free(static_cast<std::size_t>(kv.pages));
  std::iota(free.begin(), free.end(), 0);
  for (std::size_t i = free.size(); i > 1; --i) {
    std::swap(free[i - 1], free[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(i)))]);
  }
  for (const At& at : rows) {
    const auto first = visible_too ? kv_first_visible(kv, at.position) : at.position;
    for (std::int64_t page = first / kv.page_rows; page <= at.position / kv.page_rows; ++page) {
      std::int32_t& cell = table[at.sequence * kv.table_pages + page % kv.table_pages];
      if (cell != kNoPage) continue;
      cell = free.back();
      free.pop_back();
    }
  }
}

// K and V of every key that some row sees, and of no other: the rest stays poison.
void fill_visible(const KvView& kv, const std::vector<At>& rows, Random& random) {
  std::vector<float> row(static_cast<std::size_t>(kv.head_dim));
  for (const At& at : rows) {
    for (std::int64_t j = kv_first_visible(kv, at.position); j <= at.position; ++j) {
      const std::int64_t page = page_of(kv, at.sequence, j);
      for (std::int32_t h = 0; h < kv.kv_heads; ++h) {
        for (std::byte* pool : {kv.k.get(), kv.v.get()}) {
          random.values(row.data(), kv.head_dim);
          kv_store(kv, pool, page, h, j % kv.page_rows, row.data());
        }
      }
    }
  }
}

void fill_rows(const std::vector<At>& rows, std::int32_t* positions, std::int32_t* sequences) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    positions[r] = rows[r].position;
    sequences[r] = rows[r].sequence;
  }
}

// The scale of a q8 row.
double q8_scale(const KvView& kv, const std::byte* pool, std::int64_t page, int head, std::int64_t row) {
  float scale;
  std::memcpy(&scale, pool + kv_block(kv, page, head) + kv_scales_in_block(kv) + row * 4, sizeof scale);
  return double{scale};
}

// What one key gives to a head.
struct SeenKey {
  std::int64_t position;
  double score;
  double v_scale;  // of q8
  std::vector<double> value;
};

// By how much the rounding of weights to codes can move element d of the sum of exp(s - largest) v.
double code_error(const std::vector<SeenKey>& keys, double largest, std::size_t d) {
  double error = 0;
  for (std::size_t i = 0; i < keys.size();) {
    const std::int64_t chunk = keys[i].position / kAttentionChunk;
    double heaviest = 0;
    double codes = 0;
    for (; i < keys.size() && keys[i].position / kAttentionChunk == chunk; ++i) {
      heaviest = std::max(heaviest, std::exp(keys[i].score - largest) * keys[i].v_scale);
      if (keys[i].v_scale > 0) codes += std::fabs(keys[i].value[d]) / keys[i].v_scale;
    }
    error += 0.5 * heaviest / kWeightCodes * codes;
  }
  return error;
}

// Per output: a score is off by the dot product's bound, softcap's tanh (4e-7 of the cap, as it is computed from exp) and the
// rounding of its distance to the maximum. A probability inherits that relatively; each chunk of keys, slice and stretch rescales
// (8 u) and each key adds once; scales of q8 are two roundings more. The quotient of sums can be off by twice that, relative to the sum of p |v|.
// Over q8, codes (api/attention.h) are off by half of one: of a query's, which every product of a score inherits, and of a chunk's weights, which are
// multiplied by codes of values.
std::vector<Bound> attention_bounds(const AttentionArgs& a) {
  const KvView& kv = a.kv;
  Bound bound{"out", {}};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int32_t h = 0; h < a.q_heads; ++h) {
      const float* q = a.q.get() + (r * a.q_heads + h) * kv.head_dim;
      std::vector<SeenKey> keys;
      double largest = a.sinks ? a.sinks[h] : -std::numeric_limits<double>::infinity();
      double score_error = 0;
      double q_largest = 0;
      for (std::int64_t d = 0; d < kv.head_dim; ++d) q_largest = std::max(q_largest, std::fabs(double{q[d]}));
      for (std::int64_t j = kv_first_visible(kv, a.positions[r]); j <= a.positions[r]; ++j) {
        const std::int64_t page = page_of(kv, a.sequences[r], j);
        if (page < 0) continue;
        const std::int32_t kv_head = h / (a.q_heads / kv.kv_heads);
        SeenKey key{.position = j, .score = 0, .v_scale = kv.format == KvFormat::q8 ? q8_scale(kv, kv.v.get(), page, kv_head, j % kv.page_rows) : 0, .value = {}};
        double score = 0;
        double terms = 0;
        double k_sum = 0;
        for (std::int64_t d = 0; d < kv.head_dim; ++d) {
          const double k = kv_load(kv, kv.k.get(), page, kv_head, j % kv.page_rows, d);
          score += double{q[d]} * k;
          terms += std::fabs(double{q[d]} * k);
          k_sum += std::fabs(k);
          key.value.push_back(kv_load(kv, kv.v.get(), page, kv_head, j % kv.page_rows, d));
        }
        score *= a.scale;
        double error = dot_bound(kv.head_dim) * terms * std::fabs(a.scale);
        if (kv.format == KvFormat::q8) error += 0.5 * q_largest / kQueryCodes * k_sum * std::fabs(a.scale);
        if (a.softcap > 0) {
          score = a.softcap * std::tanh(score / a.softcap);
          error += 4e-7 * a.softcap;
        }
        key.score = score;
        keys.push_back(std::move(key));
        largest = std::max(largest, score);
        score_error = std::max(score_error, error);
      }
      double total = a.sinks ? std::exp(a.sinks[h] - largest) : 0.0;
      double distance = 0;
      for (const SeenKey& key : keys) {
        total += std::exp(key.score - largest);
        distance = std::max(distance, largest - key.score);
      }
      const auto n = static_cast<double>(keys.size());
      const double relative = score_error + (std::min(distance, 90.0) + n + (n / 64 + n / 256 + n / 2048 + 5) * 8 + 20) * kU;
      for (std::int64_t d = 0; d < kv.head_dim; ++d) {
        double sum = 0;
        const auto at = static_cast<std::size_t>(d);
        for (const SeenKey& key : keys) sum += std::exp(key.score - largest) * std::fabs(key.value[at]);
        const double codes = kv.format == KvFormat::q8 ? code_error(keys, largest, at) : 0;
        bound.absolute.push_back((2 * relative * sum + codes * (1 + relative)) / total + 1e-37);
      }
    }
  }
  return {bound};
}

struct AttentionShape {
  KvShape kv;
  std::int32_t q_heads;
  bool sinks;
  float softcap;
  std::vector<At> rows;
  // Places for the slices or stretches of each row (all of max_rows) and how many parts slices are cut in; 0: none.
  std::int32_t places = 0;
  std::int32_t parts = 1;
};

ShapeCase attention_case(const char* what, const AttentionShape& s) {
  const auto rows = static_cast<std::int32_t>(s.rows.size());
  AttentionArgs args{.out = given<float>(),
                     .q = given<const float>(),
                     .kv = kv_shape(s.kv, s.rows),
                     .positions = given<const std::int32_t>(),
                     .sequences = given<const std::int32_t>(),
                     .scale = 1.0F / std::sqrt(static_cast<float>(s.kv.head_dim)),
                     .softcap = s.softcap,
                     .q_heads = s.q_heads,
                     .rows = rows,
                     .partial_places = s.places * (rows + 3),
                     .parts = s.parts};
  if (s.places > 0) args.partials = given<float>();
  if (s.sinks) args.sinks = given<const float>();
  ShapeCase c = make_case(fmt::format("{}: rows={} q_heads={} kv_heads={} head_dim={} page_rows={} window={} kv={} parts={}{}{}", what, rows,
                                      s.q_heads, s.kv.kv_heads, s.kv.head_dim, s.kv.page_rows, s.kv.window, to_string(s.kv.format),
                                      s.parts, s.sinks ? " sinks" : "", s.softcap > 0 ? " softcap" : ""),
                          args, rows, [at = s.rows](const AttentionArgs& a, Random& random) {
                            fill_rows(at, writable(a.positions), writable(a.sequences));
                            fill_table(a.kv, at, true, random);
                            fill_visible(a.kv, at, random);
                            random.values(writable(a.q), std::int64_t{a.rows} * a.q_heads * a.kv.head_dim);
                            if (a.sinks) random.values(writable(a.sinks), a.q_heads);
                          });
  set_bounds<AttentionArgs>(c, attention_bounds);
  return c;
}

ShapeCase append_case(const char* what, const KvShape& shape, const std::vector<At>& at) {
  const auto rows = static_cast<std::int32_t>(at.size());
  std::vector<At> written = at;
  std::erase_if(written, [](const At& row) { return row.sequence < 0; });
  const KvAppendArgs args{.kv = kv_shape(shape, at),
                          .k = given<const float>(),
                          .v = given<const float>(),
                          .positions = given<const std::int32_t>(),
                          .sequences = given<const std::int32_t>(),
                          .rows = rows};
  return make_case(fmt::format("{}: rows={} kv_heads={} head_dim={} page_rows={} window={} kv={}", what, rows,
                               shape.kv_heads, shape.head_dim, shape.page_rows, shape.window, to_string(shape.format)),
                   args, rows, [at, written](const KvAppendArgs& a, Random& random) {
                     fill_rows(at, writable(a.positions), writable(a.sequences));
                     fill_table(a.kv, written, false, random);
                     random.values(writable(a.k), a.rows * kv_row_elements(a.kv));
                     random.values(writable(a.v), a.rows * kv_row_elements(a.kv));
                   });
}

// Rows [first, last] of one sequence.
std::vector<At> run(std::int32_t sequence, std::int32_t first, std::int32_t last) {
  std::vector<At> rows;
  for (std::int32_t p = first; p <= last; ++p) rows.push_back({sequence, p});
  return rows;
}

void add_cases(KvFormat format, std::vector<ShapeCase>& cases) {
  const auto attention = [&](const char* what, AttentionShape s) {
    s.kv.format = format;
    cases.push_back(attention_case(what, s));
  };
  const auto append = [&](const char* what, KvShape s, const std::vector<At>& at) {
    s.format = format;
    cases.push_back(append_case(what, s, at));
  };
  for (const AttentionShape& s : std::initializer_list<AttentionShape>{
           {{16, 0, 1, 8}, 7, false, 0, {{0, 0}}},
           {{16, 0, 1, 8}, 7, true, 0, {{0, 0}, {1, 15}, {0, 1}, {1, 16}, {2, 17}}},
           {{64, 0, 2, 64}, 8, true, 0, {{0, 0}, {1, 63}, {2, 64}, {3, 65}, {1, 200}}},
           {{128, 0, 3, 40}, 3, false, 0, {{1, 127}, {0, 128}, {1, 128}}},
           {{1, 0, 1, 16}, 2, true, 0, {{0, 0}, {0, 1}, {1, 70}}},
           {{32, 0, 2, 256}, 10, true, 30, {{0, 5}, {1, 90}}},
           {{32, 0, 1, 512}, 17, false, 0, {{0, 40}, {1, 3}}},  // two head tiles, the second of one head
           {{64, 0, 5, 24}, 15, true, 0, {{0, 33}}},
           {{256, 0, 1, 72}, 1, false, 20, {{0, 255}, {0, 256}}},
       }) {
    attention("full", s);
  }
  attention("prompt", {{16, 0, 2, 32}, 6, true, 0, run(0, 0, 40)});
  for (const AttentionShape& s : std::initializer_list<AttentionShape>{
           {{32, 128, 2, 64}, 8, true, 0, {{0, 126}, {1, 127}, {2, 128}, {3, 129}}},
           {{32, 128, 1, 64}, 8, true, 0, {{0, 191}, {1, 192}, {2, 1000}, {3, 100000}}},
           {{4, 5, 1, 8}, 7, false, 0, {{0, 0}, {0, 1}, {1, 4}, {2, 5}, {3, 6}, {1, 5}}},
           {{8, 1, 2, 16}, 2, true, 0, {{0, 0}, {1, 7}, {2, 8}}},
           {{64, 100, 3, 128}, 9, true, 50, {{0, 163}, {1, 164}}},
       }) {
    attention("window", s);
  }
  attention("window prompt", {{16, 24, 2, 32}, 6, true, 0, run(1, 30, 75)});

  append("one", {16, 0, 1, 8}, {{0, 0}});
  append("page ends", {16, 0, 2, 64}, {{0, 15}, {1, 16}, {0, 16}, {2, 31}});
  append("some rows skipped", {16, 0, 2, 24}, {{0, 3}, {-1, 7}, {1, 5}, {-1, 900}});
  append("ring", {8, 20, 3, 40}, {{0, 100}, {0, 101}, {1, 7}, {1, 8}, {2, 131071}});

  // Slices: rows that see several, some of them without room to keep them apart.
  attention("slices", {{16, 0, 2, 64}, 8, true, 0, {{0, 255}, {1, 256}, {2, 800}, {3, 1030}}, 5, 2});
  attention("slices", {{64, 0, 1, 24}, 3, false, 0, {{0, 700}, {1, 255}}, 3, 8});
  attention("slices without room", {{16, 0, 1, 16}, 2, true, 0, {{0, 900}, {1, 10}}, 1, 3});
  attention("stretches", {{64, 0, 1, 16}, 2, true, 0, {{0, 2047}, {1, 2048}, {2, 4500}, {0, 30}}, 18, 3});
  attention("stretches without room for slices", {{64, 0, 2, 8}, 2, false, 0, {{0, 4200}}, 3, 3});
  attention("stretches without room", {{64, 0, 1, 8}, 2, true, 0, {{0, 4500}, {1, 10}, {2, 2500}}, 1, 3});
  attention("stretches of a window", {{16, 2100, 1, 8}, 2, true, 0, {{0, 4090}, {1, 4110}}, 10, 2});
  attention("slices of a window", {{16, 300, 2, 32}, 4, true, 0, {{0, 5000}, {1, 511}, {2, 12}}, 3, 2});
  // Blocks that end with their sequence, with a run of positions, and with the batch.
  std::vector<At> mixed = run(2, 250, 275);
  for (const At& at : {At{0, 40}, At{1, 7}, At{1, 8}, At{1, 10}, At{0, 41}}) mixed.push_back(at);
  attention("prompts and decode", {{16, 0, 2, 32}, 8, true, 0, mixed, 2, 2});
  attention("long prompt", {{32, 100, 1, 64}, 4, false, 0, run(0, 200, 259)});
}

}  // namespace

std::vector<ShapeCase> attention_cases() {
  std::vector<ShapeCase> cases;
  for (const KvFormat format : kKvFormats) add_cases(format, cases);
  return cases;
}

}  // namespace plumb::kernels::conformance
