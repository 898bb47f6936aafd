#include "oracle_file.h"

#include <cstring>
#include <optional>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "format/safetensors_writer.h"

namespace plumb::app {
namespace {

using Shape = std::vector<std::uint64_t>;

std::string tensor_name(std::size_t i, const char* what) { return "p" + std::to_string(i) + "." + what; }

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, float> ? DType::f32 : DType::i32;

// A tensor's values. A dimension of 0 in `shape` is free and filled in.
template <class T>
Result<std::vector<T>> read(const format::Checkpoint& file, const std::string& name, Shape& shape) {
  PLUMB_ASSIGN(const format::TensorView* tensor, file.require(name));
  bool fits = tensor->dtype == kTypeOf<T> && tensor->shape.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    if (shape[d] == 0) shape[d] = tensor->shape[d];
    fits = shape[d] == tensor->shape[d];
  }
  if (!fits) {
    return fail(ErrorCode::shape_mismatch, "expected " + std::string(to_string(kTypeOf<T>)) + " " + format::shape_text(shape) + " (0: any)",
                file.subject(), name, std::string(to_string(tensor->dtype)) + " " + format::shape_text(tensor->shape));
  }
  std::vector<T> values(tensor->elements());
  if (!values.empty()) std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

Status check_range(const std::vector<std::int32_t>& values, std::int64_t limit, const std::string& file, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= limit) {
      return fail(ErrorCode::malformed, "element " + std::to_string(i) + " must be from 0 to " + std::to_string(limit - 1), file, name,
                  std::to_string(values[i]));
    }
  }
  return {};
}

}  // namespace

Result<OracleFile> OracleFile::open(const std::string& path) {
  PLUMB_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(path));
  OracleFile oracle(std::move(checkpoint));
  while (oracle.checkpoint_.find(tensor_name(oracle.prompts_, "ids")) != nullptr) ++oracle.prompts_;
  if (oracle.prompts_ == 0) return fail(ErrorCode::missing_tensor, "not an oracle file: it holds no prompt", path, "p0.ids");
  for (const auto& entry : oracle.checkpoint_.metadata().entries()) {
    if (const auto* text = std::get_if<std::string>(&entry.value)) oracle.metadata_[entry.key] = *text;
  }
  PLUMB_ASSIGN(const MappedFile bytes, MappedFile::open(oracle.checkpoint_.files()[0].path));
  oracle.digest_ = hash128(bytes.bytes()).hex();
  PLUMB_TRY(bytes.check());
  return oracle;
}

std::int32_t OracleFile::prompt_length(std::size_t i) const {
  return static_cast<std::int32_t>(checkpoint_.find(tensor_name(i, "ids"))->elements());
}

std::int32_t OracleFile::greedy_length(std::size_t i) const {
  const auto* greedy = checkpoint_.find(tensor_name(i, "greedy"));
  return greedy == nullptr ? 0 : static_cast<std::int32_t>(greedy->elements());
}

Result<PromptOutputs> OracleFile::prompt(std::size_t i, std::int32_t vocab) const {
  const auto name = [&](const char* what) { return tensor_name(i, what); };
  PromptOutputs p;
  Shape length{0}, kept{0}, steps{0};
  PLUMB_ASSIGN(p.ids, read<std::int32_t>(checkpoint_, name("ids"), length));
  PLUMB_ASSIGN(p.positions, read<std::int32_t>(checkpoint_, name("positions"), kept));
  Shape logits{kept[0], static_cast<std::uint64_t>(vocab)};
  PLUMB_ASSIGN(p.logits, read<float>(checkpoint_, name("logits"), logits));
  PLUMB_ASSIGN(p.greedy, read<std::int32_t>(checkpoint_, name("greedy"), steps));
  PLUMB_ASSIGN(p.margin, read<float>(checkpoint_, name("margin"), steps));
  PLUMB_TRY(check_range(p.ids, vocab, path(), name("ids")));
  PLUMB_TRY(check_range(p.greedy, vocab, path(), name("greedy")));
  PLUMB_TRY(check_range(p.positions, static_cast<std::int64_t>(p.ids.size()), path(), name("positions")));
  for (std::size_t k = 1; k < p.positions.size(); ++k) {
    if (p.positions[k] <= p.positions[k - 1]) {
      return fail(ErrorCode::malformed, "must ascend", path(), name("positions"), std::to_string(p.positions[k]));
    }
  }
  if (checkpoint_.find(name("routes")) != nullptr) {
    Shape routes{length[0], 0, 0};
    PLUMB_ASSIGN(p.routes, read<std::int32_t>(checkpoint_, name("routes"), routes));
    Shape margins{length[0], routes[1]};
    PLUMB_ASSIGN(p.route_margin, read<float>(checkpoint_, name("route_margin"), margins));
    p.routed_layers = static_cast<std::int32_t>(routes[1]);
    p.top_k = static_cast<std::int32_t>(routes[2]);
  }
  return p;
}

Status write_oracle(const std::string& path, const std::vector<PromptOutputs>& prompts, std::int32_t vocab,
                    const std::map<std::string, std::string>& metadata) {
  std::vector<format::TensorDecl> tensors;
  std::vector<std::span<const std::byte>> bytes;
  const auto add = [&](std::size_t i, const char* what, const auto& values, Shape shape) {
    using T = typename std::remove_cvref_t<decltype(values)>::value_type;
    tensors.push_back({tensor_name(i, what), kTypeOf<T>, std::move(shape)});
    bytes.push_back(std::as_bytes(std::span(values)));
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const PromptOutputs& p = prompts[i];
    add(i, "ids", p.ids, {p.ids.size()});
    add(i, "positions", p.positions, {p.positions.size()});
    add(i, "logits", p.logits, {p.positions.size(), static_cast<std::uint64_t>(vocab)});
    add(i, "greedy", p.greedy, {p.greedy.size()});
    add(i, "margin", p.margin, {p.margin.size()});
    if (p.routed_layers == 0) continue;
    const auto layers = static_cast<std::uint64_t>(p.routed_layers);
    add(i, "routes", p.routes, {p.ids.size(), layers, static_cast<std::uint64_t>(p.top_k)});
    add(i, "route_margin", p.route_margin, {p.ids.size(), layers});
  }
  PLUMB_ASSIGN(format::TensorWriter writer, format::create_safetensors(path, metadata, tensors));
  for (std::size_t t = 0; t < tensors.size(); ++t) PLUMB_TRY(writer.append_tensor(tensors[t].name, bytes[t]));
  return writer.finish();
}

}  // namespace plumb::app
