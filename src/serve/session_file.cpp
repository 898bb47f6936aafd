// The form of the file is in docs/FORMATS.md. Pages that a window has passed are not held, as in the tree. Of a recurrent model the
// file ends where its last state stands: pages behind it could not be gone on from (C23).
#include "serve/session_file.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/status.h"
#include "serve/engine_impl.h"

namespace plumb {
namespace {

constexpr std::string_view kMagic = "PLUMBKV2";
constexpr std::size_t kVersionAt = 7;  // the magic's last character

// Another model, another width of a row, another order of layers: another identity. Weights are told apart by the bytes at the
// start and the end of each; hashing all of a 12 GB file would take longer than computing the session again.
Digest128 identity(const Engine::Impl& engine) {
  constexpr std::size_t kEnds = 256;
  Hasher hasher;
  const auto number = [&](std::int64_t n) { hasher.update(std::as_bytes(std::span(&n, 1))); };
  const ModelInfo& info = engine.info();
  hasher.update(info.family);
  for (const std::int64_t n : {info.vocab, info.hidden, info.layers}) number(n);
  for (const kv::KvClass& c : engine.layout().classes) {
    number(c.geometry.window);
    number(static_cast<std::int64_t>(c.page_bytes));
    number(static_cast<std::int64_t>(c.geometry.format));
  }
  number(static_cast<std::int64_t>(engine.executor().state_bytes()));
  for (const format::TensorView& tensor : engine.checkpoint().tensors()) {
    hasher.update(tensor.name);
    const auto bytes = tensor.data;
    const std::size_t n = std::min(kEnds, bytes.size());
    hasher.update(bytes.first(n));
    hasher.update(bytes.last(n));
  }
  return hasher.digest();
}

class Writer {
 public:
  explicit Writer(OutputFile& file) : file_(file) {}
  Status bytes(std::span<const std::byte> data) {
    hasher_.update(data);
    return file_.write(data);
  }
  template <class T>
  Status number(T value) {
    return bytes(std::as_bytes(std::span(&value, 1)));
  }
  Status finish() {
    const Digest128 digest = hasher_.digest();
    PLUMB_TRY(file_.write(std::as_bytes(std::span(&digest, 1))));
    return file_.commit();
  }

 private:
  OutputFile& file_;
  Hasher hasher_;
};

// Reads what a checksum has vouched for; a length that does not fit is still an error, for a file can be made to lie.
class Reader {
 public:
  Reader(std::span<const std::byte> data, const std::string& path) : data_(data), path_(path) {}
  Result<std::span<const std::byte>> bytes(std::uint64_t n, const char* field) {
    if (n > data_.size() - at_) return fail(ErrorCode::truncated, "the file ends inside it", path_, field, std::to_string(n) + " bytes");
    const auto part = data_.subspan(at_, n);
    at_ += n;
    return part;
  }
  template <class T>
  Result<T> number(const char* field) {
    PLUMB_ASSIGN(const auto raw, bytes(sizeof(T), field));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  bool done() const { return at_ == data_.size(); }

 private:
  std::span<const std::byte> data_;
  const std::string& path_;
  std::size_t at_ = 0;
};

// Gives the node its state, unless it has one: then that is the same.
Status restore_state(Engine::Impl& engine, kv::NodeId node, std::span<const std::byte> state, const std::string& path) {
  if (engine.tree()->aux(node) != kernels::kNoPage) return {};
  auto slot = engine.aux()->acquire();
  if (!slot && engine.tree()->evict_aux(1) > 0) slot = engine.aux()->acquire();
  if (!slot) return fail(ErrorCode::capacity, "no slot for the recurrent state is free", path, "state", std::to_string(engine.aux()->pages()) + " in use");
  Status written = engine.executor().write_state(*slot, state);
  if (!written.ok() || !engine.tree()->set_aux(node, *slot)) engine.aux()->release(*slot);
  return written;
}

}  // namespace

Result<std::int32_t> save_session(Engine::Impl& engine, std::span<const std::int32_t> tokens, const std::string& path) {
  if (engine.tree() == nullptr) return fail(ErrorCode::not_found, "the engine keeps no prefixes", path, "prefix_cache", "off");
  // match() leaves one token to compute; a session is about all of them.
  std::vector<std::int32_t> text(tokens.begin(), tokens.end());
  text.push_back(0);
  kv::PrefixMatch match = engine.tree()->match(text);
  if (engine.aux() != nullptr) {
    match.length = match.recompute_from;  // the last state
    match.path.resize(static_cast<std::size_t>(match.length / kv::kPageRows));
  }
  if (match.length == 0) return fail(ErrorCode::not_found, "no page of this text is held", path, "tokens", std::to_string(tokens.size()));
  const auto& classes = engine.layout().classes;
  PLUMB_ASSIGN(OutputFile file, OutputFile::create(path));
  Writer out(file);
  PLUMB_TRY(out.bytes(std::as_bytes(std::span(kMagic))));
  PLUMB_TRY(out.number(identity(engine)));
  PLUMB_TRY(out.number(static_cast<std::uint32_t>(kv::kPageRows)));
  PLUMB_TRY(out.number(static_cast<std::uint32_t>(classes.size())));
  for (const kv::KvClass& c : classes) {
    PLUMB_TRY(out.number(c.geometry.window));
    PLUMB_TRY(out.number(c.page_bytes));
  }
  PLUMB_TRY(out.number(static_cast<std::uint32_t>(match.path.size())));
  PLUMB_TRY(out.bytes(std::as_bytes(tokens.first(static_cast<std::size_t>(match.length)))));
  std::vector<std::byte> page;
  for (const kv::NodeId node : match.path) {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const kv::PageId id = engine.tree()->page(node, c);
      PLUMB_TRY(out.number(static_cast<std::uint8_t>(id != kernels::kNoPage)));
      if (id == kernels::kNoPage) continue;
      page.resize(classes[c].page_bytes);
      PLUMB_TRY(engine.executor().read_page(static_cast<std::int32_t>(c), id, page));
      PLUMB_TRY(out.bytes(page));
    }
  }
  const std::uint64_t state_bytes = engine.executor().state_bytes();
  PLUMB_TRY(out.number(state_bytes));
  if (state_bytes > 0) {
    std::vector<std::byte> state(state_bytes);
    PLUMB_TRY(engine.executor().read_state(engine.tree()->aux(match.node()), state));
    PLUMB_TRY(out.number(match.length));
    PLUMB_TRY(out.bytes(state));
  }
  PLUMB_TRY(out.finish());
  return match.length;
}

Result<std::int32_t> restore_session(Engine::Impl& engine, const std::string& path) {
  if (engine.tree() == nullptr) return fail(ErrorCode::unsupported, "the engine keeps no prefixes", path, "prefix_cache", "off");
  PLUMB_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> data = file.bytes();
  if (data.size() < kMagic.size() + sizeof(Digest128) || std::memcmp(data.data(), kMagic.data(), kVersionAt) != 0) {
    return fail(ErrorCode::malformed, "is not a Plumb session file", path, "magic");
  }
  if (const char version = static_cast<char>(data[kVersionAt]); version != kMagic[kVersionAt]) {
    return fail(ErrorCode::unsupported, "is a session of another version; this program reads version " + std::string(1, kMagic[kVersionAt]), path, "version",
                printable(std::string_view(&version, 1)));
  }
  const auto body = data.first(data.size() - sizeof(Digest128));
  Digest128 said;
  std::memcpy(&said, data.data() + body.size(), sizeof(said));
  if (!(hash128(body) == said)) return fail(ErrorCode::malformed, "the checksum does not match: the file is damaged", path, "checksum", said.hex());
  PLUMB_TRY(file.check());

  Reader in(body.subspan(kMagic.size()), path);
  PLUMB_ASSIGN(const Digest128 who, in.number<Digest128>("identity"));
  if (!(who == identity(engine))) return fail(ErrorCode::shape_mismatch, "the session is of another model or KV layout", path, "identity", who.hex());
  const auto& classes = engine.layout().classes;
  PLUMB_ASSIGN(const std::uint32_t page_rows, in.number<std::uint32_t>("page_rows"));
  PLUMB_ASSIGN(const std::uint32_t class_count, in.number<std::uint32_t>("classes"));
  if (page_rows != kv::kPageRows || class_count != classes.size()) {
    return fail(ErrorCode::shape_mismatch, "pages have " + std::to_string(kv::kPageRows) + " rows here", path, "page_rows", std::to_string(page_rows));
  }
  for (const kv::KvClass& c : classes) {
    PLUMB_ASSIGN(const std::int32_t window, in.number<std::int32_t>("window"));
    PLUMB_ASSIGN(const std::uint64_t bytes, in.number<std::uint64_t>("page bytes"));
    if (window != c.geometry.window || bytes != c.page_bytes) return fail(ErrorCode::shape_mismatch, "differs from the model's", path, "layer class", std::to_string(window));
  }
  PLUMB_ASSIGN(const std::uint32_t pages, in.number<std::uint32_t>("pages"));
  PLUMB_ASSIGN(const auto raw_tokens, in.bytes(std::uint64_t{pages} * kv::kPageRows * 4, "tokens"));
  std::vector<std::int32_t> tokens(std::size_t{pages} * kv::kPageRows);
  std::memcpy(tokens.data(), raw_tokens.data(), raw_tokens.size());
  // Everything is looked at before anything is taken in.
  std::vector<std::span<const std::byte>> contents;
  for (std::size_t i = 0; i < std::size_t{pages} * classes.size(); ++i) {
    PLUMB_ASSIGN(const std::uint8_t held, in.number<std::uint8_t>("held"));
    std::span<const std::byte> content;
    if (held != 0) {
      PLUMB_ASSIGN(content, in.bytes(classes[i % classes.size()].page_bytes, "page"));
    } else if (classes[i % classes.size()].residency.full()) {
      return fail(ErrorCode::malformed, "a full-attention page is missing", path, "page", std::to_string(i / classes.size()));
    }
    contents.push_back(content);
  }
  PLUMB_ASSIGN(const std::uint64_t state_bytes, in.number<std::uint64_t>("state bytes"));
  if (state_bytes != engine.executor().state_bytes()) {
    return fail(ErrorCode::shape_mismatch, "the model's recurrent state has " + std::to_string(engine.executor().state_bytes()), path, "state bytes", std::to_string(state_bytes));
  }
  std::span<const std::byte> state;
  if (state_bytes > 0) {
    PLUMB_ASSIGN(const std::int32_t length, in.number<std::int32_t>("state length"));
    if (pages == 0 || length != static_cast<std::int32_t>(tokens.size())) {
      return fail(ErrorCode::malformed, "is not the length of the text, which has " + std::to_string(tokens.size()) + " tokens", path, "state length", std::to_string(length));
    }
    PLUMB_ASSIGN(state, in.bytes(state_bytes, "state"));
  }
  if (!in.done()) return fail(ErrorCode::malformed, "has bytes after its last page", path, "pages", std::to_string(pages));

  kv::NodeId parent = kv::kRoot;
  std::vector<kv::PageId> last(classes.size(), kernels::kNoPage);
  engine.tree()->lock(parent);
  Status status;
  for (std::uint32_t p = 0; p < pages && status.ok(); ++p) {
    std::vector<kv::PageId> ids(classes.size(), kernels::kNoPage);
    for (std::size_t c = 0; c < classes.size() && status.ok(); ++c) {
      const auto content = contents[p * classes.size() + c];
      if (content.empty()) continue;
      auto page = engine.pool(c).acquire(last[c]);
      if (!page && engine.tree()->evict(c, 1) > 0) page = engine.pool(c).acquire(last[c]);
      if (!page) {
        status = fail(ErrorCode::capacity, "the KV pool has no page for it", path, "page", std::to_string(p));
      } else {
        ids[c] = last[c] = *page;
        status = engine.executor().write_page(static_cast<std::int32_t>(c), *page, content);
      }
    }
    if (status.ok()) {
      const kv::NodeId node = engine.tree()->insert(parent, std::span(tokens).subspan(std::size_t{p} * kv::kPageRows, kv::kPageRows), ids);
      engine.tree()->lock(node);
      engine.tree()->unlock(parent);
      parent = node;
    }
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (ids[c] != kernels::kNoPage) engine.pool(c).release(ids[c]);  // the tree holds what it took
    }
  }
  if (status.ok() && !state.empty()) status = restore_state(engine, parent, state, path);
  if (status.ok()) engine.tree()->mark_snapshot(parent);
  engine.tree()->unlock(parent);
  if (!status.ok()) return status.error();
  return static_cast<std::int32_t>(tokens.size());
}

}  // namespace plumb
