#include "format/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "base/blocks.h"
#include "base/printable.h"
#include "format/gguf.h"
#include "format/safetensors.h"

namespace plumb::format {
namespace {

namespace fs = std::filesystem;

// Formats that are recognised in order to be refused by name.
struct Foreign {
  std::string_view magic;
  std::string_view name;
};
constexpr std::array<Foreign, 7> kForeign = {
    {{"PK\x03\x04", "a PyTorch or NumPy zip archive"},
     {"\x80\x02", "a Python pickle"},
     {"lmgg", "a GGML file from before GGUF"},
     {"tjgg", "a GGJT file from before GGUF"},
     {"fmgg", "a GGMF file from before GGUF"},
     {"\x89HDF", "an HDF5 file"},
     {"version https://git-lfs", "a Git LFS pointer, not the file it points to"}}};

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// An error found while reading a file that was cut short meanwhile is a consequence; the cut is the cause.
Error cause(Error error, const MappedFile& file) {
  Status status = file.check();
  return status.ok() ? std::move(error) : std::move(status).error();
}

// "name-00001-of-00003.gguf" for part 0 of 3: `stem` is what stands before the counter.
std::string split_name(std::string_view stem, unsigned part, unsigned count) {
  char counter[32];
  std::snprintf(counter, sizeof counter, "-%05u-of-%05u.gguf", part + 1, count);
  return std::string(stem) + counter;
}

// Finds the file to open in a directory: Hugging Face's order of preference, then a lone GGUF.
Result<std::string> choose_in_directory(const std::string& path) {
  std::error_code ec;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const std::string candidate = (fs::path(path) / name).string();
    if (fs::exists(candidate, ec)) return candidate;
  }
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".gguf")) continue;
    if (name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos)
      continue;  // a later part
    found.push_back(entry.path().string());
  }
  if (ec) return fail(ErrorCode::io, "cannot list: " + ec.message(), path);
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return fail(ErrorCode::not_found, "folder holds no model.safetensors, model.safetensors.index.json or .gguf file",
                path);
  }
  return fail(ErrorCode::invalid_argument, "folder holds several GGUF files; name one of them", path, "",
              std::to_string(found.size()));
}

}  // namespace

std::string_view to_string(Container container) { return container == Container::gguf ? "gguf" : "safetensors"; }

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Result<Checkpoint> Checkpoint::open(const std::string& path, const ParseLimits& limits) {
  std::string chosen = path;
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    PLUMB_ASSIGN(chosen, choose_in_directory(path));
  }
  PLUMB_ASSIGN(Checkpoint checkpoint, open_file(chosen, limits));
  checkpoint.path_ = path;
  checkpoint.directory_ = folder_of(chosen);
  PLUMB_TRY(checkpoint.verify_unchanged());
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_file(const std::string& path, const ParseLimits& limits) {
  PLUMB_ASSIGN(MappedFile file, MappedFile::open(path, limits));
  const auto bytes = file.bytes();
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 64));
  if (head.empty()) return fail(ErrorCode::truncated, "file is empty", path);
  if (head.starts_with("GGUF") || head.starts_with("FUGG")) return open_gguf(std::move(file), limits);
  // The byte after a safetensors length is '{'; a JSON text has one at its start, where the length's low byte would be.
  if (head.size() > 8 && head[8] == '{' && head[7] == '\0') return open_safetensors(std::move(file), limits);
  for (const Foreign& foreign : kForeign) {
    if (head.starts_with(foreign.magic)) {
      return fail(ErrorCode::unsupported, "is " + std::string(foreign.name) + "; GGUF and safetensors are supported",
                  path);
    }
  }
  if (path.ends_with(".json")) return open_index(std::move(file), limits);
  // Too damaged to tell by content: the reader that the name asks for says what is wrong with it.
  if (path.ends_with(".safetensors")) return open_safetensors(std::move(file), limits);
  if (path.ends_with(".gguf")) return open_gguf(std::move(file), limits);
  return fail(ErrorCode::malformed, "is neither a GGUF nor a safetensors file", path, "magic",
              printable(head.substr(0, 8)));
}

Result<Checkpoint> Checkpoint::open_safetensors(MappedFile file, const ParseLimits& limits) {
  auto contents = read_safetensors(file, limits);
  if (!contents.ok()) return cause(std::move(contents).error(), file);
  Checkpoint checkpoint;
  checkpoint.container_ = Container::safetensors;
  checkpoint.metadata_ = std::move(contents->metadata);
  const std::string path = file.path();
  checkpoint.add(std::move(file), std::move(contents->tensors));
  PLUMB_TRY(checkpoint.finish(path));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_index(MappedFile file, const ParseLimits& limits) {
  const auto bytes = file.bytes();
  auto index = read_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path(), limits);
  if (!index.ok()) return cause(std::move(index).error(), file);
  std::map<std::string, std::vector<const IndexEntry*>> shards;  // by name, so that the order is stable
  for (const IndexEntry& entry : index.value()) shards[entry.shard].push_back(&entry);
  if (shards.empty()) return fail(ErrorCode::malformed, "index names no tensor", file.path(), "weight_map");

  Checkpoint checkpoint;
  checkpoint.container_ = Container::safetensors;
  const fs::path folder = folder_of(file.path());
  for (const auto& [shard, entries] : shards) {
    PLUMB_ASSIGN(MappedFile map, MappedFile::open((folder / shard).string(), limits));
    auto contents = read_safetensors(map, limits);
    if (!contents.ok()) return cause(std::move(contents).error(), map);
    // Both lists sorted: each claimed tensor is in the shard, and the shard holds no other.
    std::vector<std::string_view> present;
    for (const TensorView& tensor : contents->tensors) present.push_back(tensor.name);
    std::sort(present.begin(), present.end());
    std::vector<std::string_view> claimed;
    for (const IndexEntry* entry : entries) claimed.push_back(entry->tensor);
    std::sort(claimed.begin(), claimed.end());
    std::vector<std::string_view> missing;
    std::vector<std::string_view> extra;
    std::set_difference(claimed.begin(), claimed.end(), present.begin(), present.end(), std::back_inserter(missing));
    std::set_difference(present.begin(), present.end(), claimed.begin(), claimed.end(), std::back_inserter(extra));
    if (!missing.empty()) {
      return fail(ErrorCode::missing_tensor, "index places the tensor in a shard that does not hold it", file.path(),
                  printable(missing.front()), shard);
    }
    if (!extra.empty()) {
      return fail(ErrorCode::unexpected_tensor, "shard holds a tensor that the index does not place there", file.path(),
                  printable(extra.front()), shard);
    }
    if (checkpoint.maps_.empty()) checkpoint.metadata_ = std::move(contents->metadata);
    checkpoint.add(std::move(map), std::move(contents->tensors));
  }
  PLUMB_TRY(checkpoint.finish(file.path()));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_gguf(MappedFile file, const ParseLimits& limits) {
  auto contents = read_gguf(file, limits);
  if (!contents.ok()) return cause(std::move(contents).error(), file);
  Checkpoint checkpoint;
  checkpoint.container_ = Container::gguf;
  checkpoint.metadata_ = std::move(contents->metadata);
  const std::string path = file.path();
  checkpoint.add(std::move(file), std::move(contents->tensors));

  // A split file says so in its first part: split.count parts named -00001-of-0000N, split.tensors.count tensors in
  // all.
  const auto* count = checkpoint.metadata_.get<std::uint64_t>("split.count");
  const std::uint64_t parts = count == nullptr ? 1 : *count;
  if (parts > 1) {
    const auto* number = checkpoint.metadata_.get<std::uint64_t>("split.no");
    if (number == nullptr || *number != 0) {
      return fail(ErrorCode::invalid_argument, "is not the first part of a split file; open that one", path, "split.no",
                  number == nullptr ? "nothing" : std::to_string(*number));
    }
    if (parts > 65535)
      return fail(ErrorCode::limit_exceeded, "more parts than 65535", path, "split.count", std::to_string(parts));
    const auto part_count = static_cast<unsigned>(parts);
    const std::string suffix = split_name("", 0, part_count);
    if (!path.ends_with(suffix)) {
      return fail(ErrorCode::malformed, "file of " + std::to_string(parts) + " parts must be named ..." + suffix, path,
                  "split.count", file_name(path));
    }
    const std::string stem = path.substr(0, path.size() - suffix.size());
    for (unsigned part = 1; part < part_count; ++part) {
      PLUMB_ASSIGN(MappedFile next, MappedFile::open(split_name(stem, part, part_count), limits));
      auto more = read_gguf(next, limits);
      if (!more.ok()) return cause(std::move(more).error(), next);
      const auto* no = more->metadata.get<std::uint64_t>("split.no");
      const auto* of = more->metadata.get<std::uint64_t>("split.count");
      if (no == nullptr || of == nullptr || *no != part || *of != parts) {
        return fail(ErrorCode::malformed,
                    "part does not belong here: expected part " + std::to_string(part) + " of " + std::to_string(parts),
                    next.path(), "split.no", no == nullptr ? "nothing" : std::to_string(*no));
      }
      checkpoint.add(std::move(next), std::move(more->tensors));
    }
    const auto* declared = checkpoint.metadata_.find("split.tensors.count");
    const auto have = checkpoint.tensors_.size();
    if (declared != nullptr && describe(declared->value) != std::to_string(have)) {
      return fail(ErrorCode::missing_tensor,
                  "parts hold " + std::to_string(have) + " tensors together, another number is declared", path,
                  "split.tensors.count", describe(declared->value));
    }
  }
  PLUMB_TRY(checkpoint.finish(path));
  return checkpoint;
}

void Checkpoint::add(MappedFile file, std::vector<TensorView> tensors) {
  const auto index = static_cast<std::uint32_t>(files_.size());
  files_.push_back({file.path(), file.bytes().size()});
  maps_.push_back(std::move(file));
  for (TensorView& tensor : tensors) {
    tensor.file = index;
    total_bytes_ += tensor.data.size();
    tensors_.push_back(std::move(tensor));
  }
}

Status Checkpoint::finish(std::string_view subject) {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return tensors_[i].name; };
  std::sort(by_name_.begin(), by_name_.end(), [&](auto a, auto b) { return name(a) < name(b); });
  const auto twice =
      std::adjacent_find(by_name_.begin(), by_name_.end(), [&](auto a, auto b) { return name(a) == name(b); });
  if (twice != by_name_.end()) {
    return fail(ErrorCode::malformed, "tensor name appears twice", std::string(subject), printable(name(*twice)));
  }
  return {};
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

Result<const TensorView*> Checkpoint::require(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) return fail(ErrorCode::missing_tensor, "tensor is missing", path_, printable(name));
  return tensor;
}

Status Checkpoint::check() const {
  for (const MappedFile& map : maps_) PLUMB_TRY(map.check());
  return {};
}

Status Checkpoint::verify_unchanged() const {
  for (const MappedFile& map : maps_) PLUMB_TRY(map.verify_unchanged());
  return {};
}

void Checkpoint::advise(MappedFile::Advice advice) const {
  for (const MappedFile& map : maps_) map.advise(advice);
}

void Checkpoint::advise(MappedFile::Advice advice, const TensorView& tensor) const {
  maps_[tensor.file].advise(advice, tensor.offset, tensor.data.size());
}

Status reject_nan_scales(const TensorView& tensor, std::string_view subject) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(tensor.data.data()), tensor.data.size());
  std::optional<std::size_t> at;
  if (tensor.dtype == DType::mxfp4) {
    at = blocks::find_nan_scale_blocks(bytes);
  } else if (tensor.dtype == DType::nvfp4) {
    at = blocks::find_bad_nvfp4_block(bytes);
  } else if (tensor.dtype == DType::u8 || tensor.dtype == DType::f8_e8m0) {
    at = blocks::find_nan_scale(bytes);
  } else {
    return fail(ErrorCode::invalid_argument, "has no E8M0 or UE4M3 scales", std::string(subject), tensor.name,
                std::string(to_string(tensor.dtype)));
  }
  if (!at) return {};
  return fail(ErrorCode::malformed, tensor.dtype == DType::nvfp4 ? "block scale is NaN or negative" : "block scale 0xFF is NaN", std::string(subject), printable(tensor.name),
              "block " + std::to_string(*at));
}

}  // namespace plumb::format
