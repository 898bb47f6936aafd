// `.scale` tensors beside weights, as llama.cpp writes them for NVFP4: a factor of each matrix.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "checkpoints.h"
#include "format/gguf_writer.h"
#include "plumb/plumb.h"
#include "subprocess.h"

namespace plumb {
namespace {

using format::TensorDecl;
using format::TensorView;

// A copy of a GGUF file with the scales of matrices divided by powers of two, and factors beside them that undo it. Only
// q8_0 and mxfp4 matrices are touched.
class WithFactors : public ::testing::Test {
 protected:
  static constexpr int kMaxPower = 3;

  static std::vector<std::byte> divided(const TensorView& tensor, std::uint64_t matrices) {
    std::vector<std::byte> out(tensor.data.begin(), tensor.data.end());
    const std::size_t of_one = out.size() / matrices;
    const std::size_t block = tensor.dtype == DType::q8_0 ? 34 : 17;
    for (std::size_t at = 0; at < out.size(); at += block) {
      const int power = power_of(at / of_one);
      if (tensor.dtype == DType::mxfp4) {
        EXPECT_GT(static_cast<int>(out[at]), power + 1);
        out[at] = static_cast<std::byte>(static_cast<int>(out[at]) - power);
      } else {
        std::uint16_t scale = 0;
        std::memcpy(&scale, out.data() + at, 2);
        if ((scale & 0x7FFF) == 0) continue;
        EXPECT_GT(scale >> 10 & 31, power) << "a subnormal scale would lose bits";
        scale = static_cast<std::uint16_t>(scale - (power << 10));
        std::memcpy(out.data() + at, &scale, 2);
      }
    }
    return out;
  }
  static int power_of(std::uint64_t matrix) { return 1 + static_cast<int>(matrix) % kMaxPower; }

  // `spoil` may change the factors of blk.0.attn_q.
  std::string copy(const std::string& name, const std::function<void(std::vector<float>&)>& spoil = {}) {
    const format::Checkpoint from = test::open_checkpoint(plain_);
    format::GgufKeys keys;
    for (const format::MetaEntry& entry : from.metadata().entries()) keys.add_entry(entry);
    std::vector<TensorDecl> tensors;
    std::vector<std::vector<std::byte>> data;
    for (const TensorView& tensor : from.tensors()) {
      const bool matrix = tensor.dtype == DType::q8_0 || tensor.dtype == DType::mxfp4;
      const std::uint64_t matrices = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
      data.push_back(matrix ? divided(tensor, matrices) : std::vector<std::byte>(tensor.data.begin(), tensor.data.end()));
      if (!matrix) continue;
      const std::string base = tensor.name.substr(0, tensor.name.size() - std::strlen(".weight"));
      std::vector<float> factors;
      for (std::uint64_t m = 0; m < matrices; ++m) factors.push_back(static_cast<float>(1 << power_of(m)));
      if (spoil && base == "blk.0.attn_q") spoil(factors);
      for (const char* what : {".scale", ".input_scale"}) {
        tensors.push_back({base + what, DType::f32, {factors.size()}});
        const auto bytes = std::as_bytes(std::span(factors));
        data.emplace_back(bytes.begin(), bytes.end());
      }
      ++matrices_;
    }
    const std::string path = folder_.file(name);
    auto writer = format::create_gguf(path, keys, tensors);
    if (!writer.ok()) throw std::runtime_error(writer.error().to_string());
    for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(writer->append_tensor(tensors[i].name, data[i]).ok());
    EXPECT_TRUE(writer->finish().ok());
    return path;
  }

  static std::vector<std::uint64_t> digests(const std::string& model, const char* act) {
    auto engine = Engine::open(model, {.threads = 2, .act = act, .context = 128});
    if (!engine.ok()) throw std::runtime_error(engine.error().to_string());
    Request request{.max_tokens = 8, .ignore_eos = true};
    for (std::int32_t i = 0; i < 40; ++i) request.prompt_ids.push_back((i * 37 + 5) % 300);
    std::vector<std::uint64_t> out;
    auto end = engine->generate(request, [&](const Event& event) {
      if (event.kind == EventKind::token) out.push_back(event.logit_digest);
      return true;
    });
    EXPECT_TRUE(end.ok());
    return out;
  }

  void SetUp() override {
    const auto done = test::run_plumb({"synth", "--preset", "tiny", "--attn", "q8_0", "-o", plain_, "-q"});
    ASSERT_EQ(done.status, 0) << done.err;
  }

  test::ScratchFolder folder_;
  std::string plain_ = folder_.file("plain.gguf");
  int matrices_ = 0;
};

TEST_F(WithFactors, OutputsAreThoseOfTheUndividedModelBitForBit) {
  const std::string model = copy("factors.gguf");
  EXPECT_GT(matrices_, 10);
  for (const char* act : {"f32", "q8"}) {
    const auto want = digests(plain_, act);
    ASSERT_EQ(want.size(), 8U);
    EXPECT_EQ(digests(model, act), want) << act;
  }
}

TEST_F(WithFactors, AFactorCounts) {
  const std::string model = copy("other.gguf", [](std::vector<float>& f) { f[0] *= 1.5F; });
  EXPECT_NE(digests(model, "q8"), digests(plain_, "q8"));
}

TEST_F(WithFactors, BadFactorsAreRefusedByName) {
  const auto refused = [&](const char* name, const std::function<void(std::vector<float>&)>& spoil) {
    const auto engine = Engine::open(copy(name, spoil), {});
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? Error{} : engine.error();
  };
  const Error nan = refused("nan.gguf", [](std::vector<float>& f) { f[0] = std::numeric_limits<float>::quiet_NaN(); });
  EXPECT_EQ(nan.code, ErrorCode::malformed);
  EXPECT_EQ(nan.field, "blk.0.attn_q.scale");
  const Error two = refused("two.gguf", [](std::vector<float>& f) { f.push_back(1); });
  EXPECT_EQ(two.code, ErrorCode::shape_mismatch);
  EXPECT_EQ(two.field, "blk.0.attn_q.scale");
}

}  // namespace
}  // namespace plumb
