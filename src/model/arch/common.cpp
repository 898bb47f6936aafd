#include "model/arch/common.h"

namespace plumb::model {
namespace {

constexpr format::RealRange kTheta{1.0, 1e12};
constexpr format::RealRange kFactor{1.0, 65536.0};

Error unsupported(const format::Config& config, std::string_view key, std::string message, std::string value) {
  return fail(ErrorCode::unsupported, std::move(message), config.subject(), std::string(key), std::move(value));
}

}  // namespace

Result<RopeSpec> read_hf_rope(const format::Config& config, std::int32_t head_dim, bool truncate_default) {
  RopeSpec rope;
  rope.rotary_dims = head_dim;
  const std::string block = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const auto key = [&](std::string_view name) { return block + "." + std::string(name); };
  PLUMB_ASSIGN(rope.theta, config.optional_real(config.first_of({key("rope_theta"), "rope_theta"}), 10000.0, kTheta));
  if (!config.has(block)) return rope;

  const std::string type_key(config.first_of({key("rope_type"), key("type")}));
  PLUMB_ASSIGN(const std::string type, config.optional_string(type_key, "default"));
  if (type == "default") return rope;
  PLUMB_ASSIGN(const double factor, config.require_real(key("factor"), kFactor));
  if (type == "linear") {
    rope.linear_factor = static_cast<float>(factor);
    return rope;
  }
  if (type != "yarn") return unsupported(config, type_key, "rope scaling must be default, linear or yarn", type);
  for (const char* extra : {"attention_factor", "mscale", "mscale_all_dim"}) {
    if (config.has(key(extra))) return unsupported(config, key(extra), "YaRN with its own attention factor", "present");
  }
  YarnSpec yarn;
  yarn.factor = static_cast<float>(factor);
  PLUMB_ASSIGN(const std::uint64_t original,
               config.require_uint(config.first_of({key("original_max_position_embeddings"), "initial_context_length"}),
                                   {1, 1U << 24}));
  yarn.original_positions = static_cast<std::int32_t>(original);
  PLUMB_ASSIGN(const double fast, config.optional_real(key("beta_fast"), 32.0, {0.001, 65536.0}));
  PLUMB_ASSIGN(const double slow, config.optional_real(key("beta_slow"), 1.0, {0.001, 65536.0}));
  yarn.beta_fast = static_cast<float>(fast);
  yarn.beta_slow = static_cast<float>(slow);
  PLUMB_ASSIGN(yarn.truncate, config.optional_bool(key("truncate"), truncate_default));
  rope.yarn = yarn;
  return rope;
}

Result<RopeSpec> read_gguf_rope(const format::Config& config, const std::string& arch, std::int32_t head_dim,
                                double theta_default, bool truncate_default) {
  RopeSpec rope;
  PLUMB_ASSIGN(const std::uint64_t dims, config.optional_uint(arch + ".rope.dimension_count",
                                                              static_cast<std::uint64_t>(head_dim), {2, 1U << 16}));
  rope.rotary_dims = static_cast<std::int32_t>(dims);
  PLUMB_ASSIGN(rope.theta, config.optional_real(arch + ".rope.freq_base", theta_default, kTheta));
  const std::string type_key = arch + ".rope.scaling.type";
  PLUMB_ASSIGN(const std::string type, config.optional_string(type_key, "none"));
  if (type == "none") return rope;
  PLUMB_ASSIGN(const double factor, config.require_real(arch + ".rope.scaling.factor", kFactor));
  if (type == "linear") {
    rope.linear_factor = static_cast<float>(factor);
    return rope;
  }
  if (type != "yarn") return unsupported(config, type_key, "rope scaling must be none, linear or yarn", type);
  YarnSpec yarn;
  yarn.factor = static_cast<float>(factor);
  PLUMB_ASSIGN(const std::uint64_t original,
               config.require_uint(arch + ".rope.scaling.original_context_length", {1, 1U << 24}));
  yarn.original_positions = static_cast<std::int32_t>(original);
  yarn.truncate = truncate_default;
  rope.yarn = yarn;
  return rope;
}

}  // namespace plumb::model
