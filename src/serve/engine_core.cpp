#include "serve/engine_core.h"

#include <utility>

#include "base/check.h"

namespace plumb {

EngineCore::EngineCore(const SchedulerParts& parts)
    : scheduler_(parts, [this](RequestId id, Event&& event) { receive(id, std::move(event)); }) {}

EngineCore::~EngineCore() { order(Order::stop); }

RequestId EngineCore::submit(Request request, std::vector<std::int32_t> prompt, std::shared_ptr<const text::Choices> choices) {
  const std::lock_guard lock(mutex_);
  const RequestId id = ++last_;
  boxes_.try_emplace(id);
  // Under the lock, so that requests arrive in the order of their numbers.
  scheduler_.mailbox().post({Order::submit, id, std::move(request), std::move(prompt), scheduler_.parts().clock.now_ns(), std::move(choices)});
  changed_.notify_all();
  return id;
}

void EngineCore::post(Mail mail) {
  const std::lock_guard lock(mutex_);
  scheduler_.mailbox().post(std::move(mail));
  changed_.notify_all();
}

void EngineCore::cancel(RequestId id) { post({.order = Order::cancel, .id = id}); }

void EngineCore::abandon(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto box = boxes_.find(id);
  if (box == boxes_.end()) return;
  scheduler_.mailbox().post({.order = Order::cancel, .id = id});
  box->second.events.clear();
  box->second.abandoned = true;
  changed_.notify_all();
}

void EngineCore::receive(RequestId id, Event&& event) {
  const std::lock_guard lock(mutex_);
  const auto box = boxes_.find(id);
  PLUMB_CHECK(box != boxes_.end());
  if (!box->second.abandoned) {
    box->second.events.push_back(std::move(event));
    changed_.notify_all();
  } else if (event.kind == EventKind::finished) {
    boxes_.erase(box);
  }
}

bool EngineCore::fetch(RequestId id, Event& event) {
  const auto box = boxes_.find(id);
  if (box == boxes_.end() || box->second.events.empty()) return false;
  event = std::move(box->second.events.front());
  box->second.events.pop_front();
  if (event.kind == EventKind::finished) boxes_.erase(box);
  return true;
}

std::size_t EngineCore::streams() const {
  const std::lock_guard lock(mutex_);
  return boxes_.size();
}

bool EngineCore::try_next(RequestId id, Event& event) {
  const std::lock_guard lock(mutex_);
  return fetch(id, event);
}

bool EngineCore::next(RequestId id, Event& event) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (fetch(id, event)) return true;
    const auto box = boxes_.find(id);
    if (box == boxes_.end()) return false;
    if (driven_ || claims_ > 0) {
      changed_.wait(lock);
    } else {
      drive_until(lock, box->second);
    }
  }
}

// Drives until there is something in `box`, or somebody claims the scheduler, or nothing can move until more mail comes.
void EngineCore::drive_until(std::unique_lock<std::mutex>& lock, const Box& box) {
  driven_ = true;
  while (box.events.empty() && claims_ == 0) {
    lock.unlock();
    const bool worked = scheduler_.turn();
    lock.lock();
    if (!worked && box.events.empty() && claims_ == 0 && scheduler_.mailbox().empty()) changed_.wait(lock);
  }
  // The last request has ended: what a chain launched for it is settled before the thread leaves.
  if (!box.events.empty() && box.events.back().kind == EventKind::finished && boxes_.size() == 1) {
    lock.unlock();
    scheduler_.drain();
    lock.lock();
  }
  driven_ = false;
  changed_.notify_all();
}

void EngineCore::at_rest(const std::function<void(Scheduler&)>& work) {
  std::unique_lock lock(mutex_);
  ++claims_;
  changed_.notify_all();  // a driver that sleeps must let go
  changed_.wait(lock, [&] { return !driven_; });
  driven_ = true;
  --claims_;
  lock.unlock();
  scheduler_.drain();
  work(scheduler_);
  lock.lock();
  driven_ = false;
  changed_.notify_all();
}

void EngineCore::order(Order order) {
  at_rest([&](Scheduler& scheduler) {
    scheduler.mailbox().post({.order = order});
    scheduler.attend();
  });
}

}  // namespace plumb
