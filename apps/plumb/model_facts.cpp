#include "model_facts.h"

#include <algorithm>
#include <numeric>

#include "base/status.h"

namespace plumb::app {
namespace {

enum Class { kEmbedding, kAttention, kRouter, kExperts, kFfn, kHead, kVectors, kClassCount };
constexpr const char* kNames[kClassCount] = {"embedding", "attention", "router", "experts", "ffn", "head", "vectors"};

class Counter {
 public:
  // `part` of `whole` of the matrix is read for one token.
  void matrix(Class kind, const model::MatrixWeight& m, std::uint64_t part = 1, std::uint64_t whole = 1) {
    const auto rows = static_cast<std::uint64_t>(m.view.rows) * static_cast<std::uint64_t>(m.view.experts);
    const std::uint64_t bytes = rows * kernels::weight_row_bytes(m.view);
    add(kind, rows * static_cast<std::uint64_t>(m.view.cols), bytes, bytes / whole * part);
    vector(m.factors, part, whole);
  }
  void vector(const model::VectorWeight& v, std::uint64_t part = 1, std::uint64_t whole = 1) {
    const std::uint64_t bytes = v.values.size() * sizeof(float);
    add(kVectors, v.values.size(), bytes, bytes / whole * part);
  }
  void add(Class kind, std::uint64_t parameters, std::uint64_t bytes, std::uint64_t per_token) {
    classes_[kind].parameters += parameters;
    classes_[kind].bytes += bytes;
    classes_[kind].bytes_per_token += per_token;
  }
  std::vector<WeightClass> take() const {
    std::vector<WeightClass> present;
    for (int i = 0; i < kClassCount; ++i) {
      if (classes_[i].parameters == 0 && classes_[i].bytes_per_token == 0) continue;
      present.push_back(classes_[i]);
      present.back().name = kNames[i];
    }
    return present;
  }

 private:
  WeightClass classes_[kClassCount];
};

void count_mixer(Counter& count, const model::AttentionWeights& w) {
  for (const model::MatrixWeight* m : {&w.q, &w.k, &w.v, &w.o}) count.matrix(kAttention, *m);
  for (const model::VectorWeight* v : {&w.q_bias, &w.k_bias, &w.v_bias, &w.o_bias, &w.sinks, &w.q_norm, &w.k_norm}) count.vector(*v);
}

void count_mixer(Counter& count, const model::RecurrentWeights& w) {
  for (const model::MatrixWeight* m : {&w.q, &w.k, &w.v, &w.beta, &w.decay, &w.o}) count.matrix(kAttention, *m);
  count.vector(w.decay_bias);
  count.vector(w.decay_rates);
}

void count_ffn(Counter& count, const model::DenseWeights& w, const model::FfnSpec&) {
  for (const model::MatrixWeight* m : {&w.gate, &w.up, &w.down}) count.matrix(kFfn, *m);
}

void count_ffn(Counter& count, const model::MoeWeights& w, const model::FfnSpec& spec) {
  const auto& moe = std::get<model::MoeSpec>(spec);
  const auto top_k = static_cast<std::uint64_t>(moe.top_k);
  const auto experts = static_cast<std::uint64_t>(moe.experts);
  count.matrix(kRouter, w.router);
  count.vector(w.router_bias);
  for (const model::MatrixWeight* m : {&w.gate, &w.up, &w.down}) count.matrix(kExperts, *m, top_k, experts);
  for (const model::VectorWeight* v : {&w.gate_bias, &w.up_bias, &w.down_bias}) count.vector(*v, top_k, experts);
}

std::vector<WeightClass> count_weights(const model::DecoderSpec& spec, const model::DecoderWeights& w) {
  Counter count;
  count.matrix(kEmbedding, w.embedding, 1, static_cast<std::uint64_t>(w.embedding.view.rows));
  count.vector(w.final_norm);
  if (spec.tied_head) {  // held once, read whole as the head
    count.add(kHead, 0, 0, static_cast<std::uint64_t>(w.head.view.rows) * kernels::weight_row_bytes(w.head.view));
  } else {
    count.matrix(kHead, w.head);
  }
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    count.vector(w.layers[i].mixer_norm);
    count.vector(w.layers[i].ffn_norm);
    std::visit([&](const auto& mixer) { count_mixer(count, mixer); }, w.layers[i].mixer);
    std::visit([&](const auto& ffn) { count_ffn(count, ffn, spec.layers[i].ffn); }, w.layers[i].ffn);
  }
  return count.take();
}

template <class T, class F>
std::uint64_t sum(const std::vector<T>& rows, F&& field) {
  return std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}, [&](std::uint64_t all, const T& row) { return all + row.*field; });
}

}  // namespace

std::uint64_t ModelFacts::parameters() const { return sum(weights, &WeightClass::parameters); }
std::uint64_t ModelFacts::weight_bytes() const { return sum(weights, &WeightClass::bytes); }
std::uint64_t ModelFacts::weight_bytes_per_token() const { return sum(weights, &WeightClass::bytes_per_token); }
std::uint64_t ModelFacts::kv_bytes() const { return sum(kv, &KvClassFacts::bytes_at_context); }
std::uint64_t ModelFacts::kv_bytes_read_at_depth() const { return sum(kv, &KvClassFacts::bytes_read_at_depth); }

Result<ModelFacts> model_facts(const model::DecoderSpec& spec, const model::DecoderWeights& weights, const FactsOptions& o) {
  ModelFacts facts;
  facts.context = o.context;
  facts.depth = o.depth;
  facts.weights = count_weights(spec, weights);
  facts.state_bytes = model::recurrent_state_bytes(spec);
  facts.recurrent_layers = std::count_if(spec.layers.begin(), spec.layers.end(), [](const model::LayerSpec& layer) {
    return std::holds_alternative<model::RecurrentSpec>(layer.mixer);
  });
  PLUMB_ASSIGN(const kv::KvLayout layout,
               kv::plan_kv(spec, {.context = o.context, .chunk_rows = o.chunk_rows, .format = o.kv}));
  for (const kv::KvClass& c : layout.classes) {
    const std::int32_t window = c.geometry.window;
    KvClassFacts row{.name = window == 0 ? "attention_full" : "attention_sliding", .window = window, .layers = c.layers};
    row.bytes_per_position = c.page_bytes / static_cast<std::uint64_t>(c.geometry.page_rows);
    row.bytes_at_context = c.pool_bytes();
    const std::int32_t seen = window == 0 ? o.depth + 1 : std::min(o.depth + 1, window);
    row.bytes_read_at_depth = row.bytes_per_position * static_cast<std::uint64_t>(seen);
    facts.kv_bytes_read_at_zero += row.bytes_per_position;
    facts.kv.push_back(row);
  }
  return facts;
}

}  // namespace plumb::app
