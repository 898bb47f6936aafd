// What readers of several families share: bounded sizes and the rope settings of config.json and of GGUF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "format/config.h"
#include "model/spec.h"

namespace plumb::model {

// A size from the configuration. The upper bounds are far above any model and far below what could wrap 32-bit arithmetic.
inline Result<std::int32_t> size(const format::Config& config, std::string_view key, std::uint64_t min = 1,
                                 std::uint64_t max = 1U << 24) {
  PLUMB_ASSIGN(const std::uint64_t value, config.require_uint(key, {min, max}));
  return static_cast<std::int32_t>(value);
}
inline Result<std::int32_t> size_or(const format::Config& config, std::string_view key, std::uint64_t fallback,
                                    std::uint64_t min = 1, std::uint64_t max = 1U << 24) {
  PLUMB_ASSIGN(const std::uint64_t value, config.optional_uint(key, fallback, {min, max}));
  return static_cast<std::int32_t>(value);
}

// Rope of a config.json: `rope_theta` with `rope_scaling`, or the newer `rope_parameters` that holds both.
// `truncate_default` is the family's value where YaRN does not say. Errors: unsupported naming a scaling type or factor that
// no rope here computes.
Result<RopeSpec> read_hf_rope(const format::Config& config, std::int32_t head_dim, bool truncate_default);

// Rope of GGUF keys `<arch>.rope.*`. The container has no YaRN betas and no truncate; 32, 1 and the family's value hold.
Result<RopeSpec> read_gguf_rope(const format::Config& config, const std::string& arch, std::int32_t head_dim,
                                double theta_default, bool truncate_default);

}  // namespace plumb::model
