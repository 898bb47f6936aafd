// The engine behind plumb::Engine: everything one opened model needs, in the order it depends on itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/cell.h"
#include "base/clock.h"
#include "decode/executor.h"
#include "decode/outputs.h"
#include "device/cpu/cpu_queue.h"
#include "format/checkpoint.h"
#include "kv/layout.h"
#include "kv/prefix_tree.h"
#include "kv/slot_table.h"
#include "kv/step_clock.h"
#include "model/spec.h"
#include "plumb/plumb.h"
#include "serve/engine_core.h"
#include "text/token_index.h"
#include "text/tokenizer.h"

namespace plumb {

class Engine::Impl {
 public:
  struct OpenOptions {
    EngineOptions engine;
    bool trace_routing = false;  // keep the routers' outputs of every step, for generate()'s `on_route`
    bool trace_steps = false;    // keep what every phase of every step computed, for SchedulerWatch::ran()
    // For simulations: the device runs on the thread that waits (and `hold`s completions back), and time is theirs. The clock
    // outlives the engine.
    bool inline_device = false;
    bool hold = false;
    const Clock* clock = nullptr;
    // Pages of the full-attention pools; 0: what the engine options say. Small pools make memory pressure.
    std::int32_t pool_pages = 0;
  };
  using RouteFn = plumb::RouteFn;

  static Result<std::unique_ptr<Impl>> open(const std::string& model, const OpenOptions& options);

  // As Engine::generate. `on_route`: one call for each layer and position; REQUIRES trace_routing and no other request.
  Result<Event> generate(const Request& request, const EventFn& on_event, const RouteFn& on_route = {});
  Result<RequestId> submit(const Request& request);

  const ModelInfo& info() const { return info_; }
  const format::Checkpoint& checkpoint() const { return checkpoint_; }
  const model::DecoderSpec& spec() const { return spec_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const kv::KvLayout& layout() const { return layout_; }
  // What is kept with trace_steps, one tap each; empty otherwise.
  const std::vector<decode::PhaseOutput>& outputs() const { return outputs_; }
  const decode::Executor& executor() const { return *executor_; }
  decode::Executor& executor() { return *executor_; }
  kv::PrefixTree* tree() { return tree_.get(); }
  const kv::PrefixTree* tree() const { return tree_.get(); }
  const kv::PagePool& pool(std::size_t layer_class) const { return *pools_[layer_class]; }
  kv::PagePool& pool(std::size_t layer_class) { return *pools_[layer_class]; }
  const kv::PagePool* aux() const { return aux_.get(); }
  kv::PagePool* aux() { return aux_.get(); }
  const kv::SlotTable& slots() const { return *slots_; }
  EngineCore& core() { return *core_; }
  const EngineCore& core() const { return *core_; }
  CellContext& context() { return context_; }
  device::CpuQueue& queue() { return *queue_; }
  const device::CpuQueue& queue() const { return *queue_; }

 private:
  Impl(format::Checkpoint checkpoint, model::DecoderSpec spec, text::Tokenizer tokenizer, kv::KvLayout layout)
      : checkpoint_(std::move(checkpoint)), spec_(std::move(spec)), tokenizer_(std::move(tokenizer)),
        layout_(std::move(layout)), steps_(&context_) {}
  std::vector<decode::Tap> find_routers(const kernels::Program& program);
  const text::TokenIndex& token_index();

  format::Checkpoint checkpoint_;  // first: everything below may point into its mapping
  model::DecoderSpec spec_;
  text::Tokenizer tokenizer_;
  kv::KvLayout layout_;
  ModelInfo info_;
  std::once_flag token_index_once_;
  std::unique_ptr<text::TokenIndex> token_index_;  // made for the first request with a constraint
  MonotonicClock wall_;
  CellContext context_;
  kv::StepClock steps_;
  std::vector<RouterTap> router_taps_;
  std::vector<decode::PhaseOutput> outputs_;
  std::unique_ptr<device::CpuQueue> queue_;
  std::unique_ptr<decode::Executor> executor_;
  std::vector<std::unique_ptr<kv::PagePool>> pools_;  // by layer class
  std::vector<kv::PagePool*> pool_list_;
  std::unique_ptr<kv::PagePool> aux_;     // null: no recurrent layers
  std::unique_ptr<kv::SlotTable> slots_;
  std::unique_ptr<kv::PrefixTree> tree_;  // null: nothing is shared between requests
  std::unique_ptr<EngineCore> core_;      // last: its requests stand on everything above
};

}  // namespace plumb
