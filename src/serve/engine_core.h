// EngineCore: streams on one side, the scheduler on the other, and one thread at a time that drives it.
//
// There is no hidden thread. Whoever waits for an event drives the scheduler while nobody else does, for everybody; when its own
// event is there it hands over to another waiter. A claim (orders, sessions) goes before all of them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "serve/scheduler.h"

namespace plumb {

class EngineCore {
 public:
  explicit EngineCore(const SchedulerParts& parts);
  // Cancels what is left and settles what is in flight.
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Queues a request that has been validated and returns its number. `choices`: the request's, compiled; null where it has none.
  RequestId submit(Request request, std::vector<std::int32_t> prompt, std::shared_ptr<const text::Choices> choices = nullptr);
  // As Stream's members of the same name.
  bool next(RequestId id, Event& event);
  bool try_next(RequestId id, Event& event);
  void cancel(RequestId id);
  // The client is gone: cancels, and nobody will fetch the events.
  void abandon(RequestId id);

  // Posts an order and returns when it has been carried out.
  void order(Order order);
  // Runs `work` on this thread while nobody drives and nothing is in flight.
  void at_rest(const std::function<void(Scheduler&)>& work);
  // Requests whose terminal event has neither been fetched nor dropped with its client. Thread rule: any.
  std::size_t streams() const;
  // Only before the first request, or at_rest().
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Box {
    std::deque<Event> events;
    bool abandoned = false;
  };
  void receive(RequestId id, Event&& event);
  bool fetch(RequestId id, Event& event);
  void drive_until(std::unique_lock<std::mutex>& lock, const Box& box);
  void post(Mail mail);

  Scheduler scheduler_;
  mutable std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::unordered_map<RequestId, Box> boxes_;  // of requests whose terminal event has not been fetched
  RequestId last_ = 0;
  std::int32_t claims_ = 0;
  bool driven_ = false;
};

}  // namespace plumb
