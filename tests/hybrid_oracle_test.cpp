// A recurrent model computed straight from its tensors, in double precision and without ops, specs or lowering: what the family's
// tensors mean, written a second time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/blocks.h"
#include "program_run.h"
#include "subprocess.h"

namespace plumb {
namespace {

using Vector = std::vector<double>;

struct Model {
  format::Checkpoint checkpoint;
  std::size_t heads, keys, values, layers;

  Vector tensor(const std::string& name) const {
    const format::TensorView* t = checkpoint.require(name).value();
    Vector out(t->elements());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (t->dtype == DType::f32) {
        float value = 0;
        std::memcpy(&value, t->data.data() + i * 4, 4);
        out[i] = value;
      } else {
        std::uint16_t value = 0;
        std::memcpy(&value, t->data.data() + i * 2, 2);
        out[i] = blocks::bf16_to_float(value);
      }
    }
    return out;
  }
  Vector product(const std::string& name, const Vector& x) const {
    const Vector matrix = tensor(name);
    Vector y(matrix.size() / x.size());
    for (std::size_t i = 0; i < matrix.size(); ++i) y[i / x.size()] += matrix[i] * x[i % x.size()];
    return y;
  }
  Vector norm(const std::string& name, Vector x) const {
    const Vector weight = tensor(name);
    double squares = 0;
    for (const double value : x) squares += value * value;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= weight[i] / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    return x;
  }
};

Vector unit(const Vector& x, std::size_t first, std::size_t n) {
  Vector out(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first + n));
  double squares = 1e-6;
  for (const double value : out) squares += value * value;
  for (double& value : out) value /= std::sqrt(squares);
  return out;
}

// The transition of the paper as a matrix: S <- S alpha (I - beta k k^T) + beta v k^T, there S is [values][keys].
void transition(Vector& s, double alpha, double beta, const Vector& k, const double* v) {
  const std::size_t n = k.size();
  for (std::size_t row = 0; row < s.size() / n; ++row) {
    Vector next(n);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) next[j] += s[row * n + i] * alpha * ((i == j ? 1 : 0) - beta * k[i] * k[j]);
      next[j] += beta * v[row] * k[j];
    }
    std::copy(next.begin(), next.end(), s.begin() + static_cast<std::ptrdiff_t>(row * n));
  }
}

// Logits of each token of a text; `states` [layer][head] are kept across.
Vector logits(const Model& m, std::vector<Vector>& states, std::int32_t token) {
  const Vector embedding = m.tensor("model.embed_tokens.weight");
  const std::size_t hidden = m.tensor("model.norm.weight").size();
  const auto first = embedding.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * hidden);
  Vector x(first, first + static_cast<std::ptrdiff_t>(hidden));
  const auto add = [&](const Vector& y) {
    for (std::size_t i = 0; i < hidden; ++i) x[i] += y[i];
  };
  for (std::size_t layer = 0; layer < m.layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    Vector h = m.norm(name + "input_layernorm.weight", x);
    const Vector q = m.product(name + "recurrent.q_proj.weight", h);
    const Vector k = m.product(name + "recurrent.k_proj.weight", h);
    const Vector v = m.product(name + "recurrent.v_proj.weight", h);
    const Vector decay = m.product(name + "recurrent.decay_proj.weight", h);
    const Vector beta = m.product(name + "recurrent.beta_proj.weight", h);
    const Vector bias = m.tensor(name + "recurrent.decay_bias");
    const Vector rate = m.tensor(name + "recurrent.A_log");
    Vector mixed;
    for (std::size_t head = 0; head < m.heads; ++head) {
      Vector& s = states[layer * m.heads + head];
      const double alpha = std::exp(-std::exp(rate[head]) * std::log(1 + std::exp(decay[head] + bias[head])));
      transition(s, alpha, 1 / (1 + std::exp(-beta[head])), unit(k, head * m.keys, m.keys), v.data() + head * m.values);
      const Vector ask = unit(q, head * m.keys, m.keys);
      for (std::size_t j = 0; j < m.values; ++j) {
        double out = 0;
        for (std::size_t i = 0; i < m.keys; ++i) out += s[j * m.keys + i] * ask[i];
        mixed.push_back(out);
      }
    }
    add(m.product(name + "recurrent.o_proj.weight", mixed));
    h = m.norm(name + "post_attention_layernorm.weight", x);
    Vector gate = m.product(name + "mlp.gate_proj.weight", h);
    const Vector up = m.product(name + "mlp.up_proj.weight", h);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(m.product(name + "mlp.down_proj.weight", gate));
  }
  return m.product("lm_head.weight", m.norm("model.norm.weight", x));
}

TEST(HybridOracle, TheLoweredModelComputesWhatItsTensorsSay) {
  const test::ScratchFolder folder;
  const test::Finished made =
      test::run_plumb({"synth", "-q", "--preset", "hybrid-tiny", "--hf", folder.file("m"), "--layer-types", "recurrent", "--layers", "2",
                       "--recurrent-heads", "3", "--key-dim", "8", "--value-dim", "24", "--attn", "f32"});
  ASSERT_EQ(made.status, 0) << made.err;
  const Model model{format::Checkpoint::open(folder.file("m")).value(), 3, 8, 24, 2};
  std::vector<Vector> states(model.layers * model.heads, Vector(model.keys * model.values));
  const auto run = test::ProgramRun::open(folder.file("m"), {}).value();
  run->give_slot(0, 0);
  run->zero_slot(0);
  double largest = 0;
  double scale = 0;
  for (std::int32_t p = 0; p < 30; ++p) {
    const std::int32_t token = p * 53 % 300;
    const Vector wanted = logits(model, states, token);
    const std::vector<float> got = run->step({{token, p, 0}}).value();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::fabs(wanted[i] - static_cast<double>(got[i])));
      scale = std::max(scale, std::fabs(wanted[i]));
    }
  }
  EXPECT_GT(scale, 1.0);
  EXPECT_LT(largest, 1e-5 * scale);
}

}  // namespace
}  // namespace plumb
