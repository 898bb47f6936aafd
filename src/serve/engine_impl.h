// The engine behind plumb::Engine: everything one opened model needs, in the order it depends on itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "decode/executor.h"
#include "device/cpu/cpu_queue.h"
#include "format/checkpoint.h"
#include "kv/layout.h"
#include "kv/prefix_tree.h"
#include "kv/sequence.h"
#include "model/spec.h"
#include "plumb/plumb.h"
#include "text/tokenizer.h"

namespace plumb {

// Which experts one position was sent to in one layer, and how sure the router was: the k-th largest logit minus the next.
struct RoutedPosition {
  std::int32_t layer = 0;
  std::int32_t position = 0;
  float margin = 0;                      // +inf when every expert is taken
  std::span<const std::int32_t> experts; // [top_k], falling logit
};

class Engine::Impl {
 public:
  struct OpenOptions {
    EngineOptions engine;
    bool trace_routing = false;  // keep the routers' outputs of every step, for generate()'s `on_route`
  };
  using RouteFn = std::function<void(const RoutedPosition&)>;

  static Result<std::unique_ptr<Impl>> open(const std::string& model, const OpenOptions& options);

  Result<Event> generate(const Request& request, const EventFn& on_event, const RouteFn& on_route = {});

  const ModelInfo& info() const { return info_; }
  const format::Checkpoint& checkpoint() const { return checkpoint_; }
  const model::DecoderSpec& spec() const { return spec_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const kv::KvLayout& layout() const { return layout_; }
  const decode::Executor& executor() const { return *executor_; }
  const kv::PrefixTree* tree() const { return tree_.get(); }
  const kv::PagePool& pool(std::size_t layer_class) const { return *pools_[layer_class]; }
  device::CpuQueue& queue() { return *queue_; }
  const device::CpuQueue& queue() const { return *queue_; }

 private:
  friend class Generation;
  struct RouterTap {
    std::int16_t layer;
    std::int32_t experts;  // of the layer
    std::int32_t top_k;
    std::size_t first_tap;  // logits, then experts
  };
  Impl(format::Checkpoint checkpoint, model::DecoderSpec spec, text::Tokenizer tokenizer, kv::KvLayout layout)
      : checkpoint_(std::move(checkpoint)), spec_(std::move(spec)), tokenizer_(std::move(tokenizer)),
        layout_(std::move(layout)) {}
  std::vector<decode::Tap> router_taps(const kernels::Program& program);

  format::Checkpoint checkpoint_;  // first: everything below may point into its mapping
  model::DecoderSpec spec_;
  text::Tokenizer tokenizer_;
  kv::KvLayout layout_;
  ModelInfo info_;
  std::int32_t chunk_rows_ = 0;
  std::vector<RouterTap> router_taps_;
  std::unique_ptr<device::CpuQueue> queue_;
  std::unique_ptr<decode::Executor> executor_;
  std::vector<std::unique_ptr<kv::PagePool>> pools_;  // by layer class
  std::vector<kv::PagePool*> pool_list_;
  std::unique_ptr<kv::PrefixTree> tree_;  // null: nothing is shared between requests
  std::vector<kv::TableChange> changes_;  // of the page tables, not yet uploaded
  bool tables_unknown_ = false;           // a step failed: the device's tables must be cleared first
  std::mutex generating_;
};

}  // namespace plumb
