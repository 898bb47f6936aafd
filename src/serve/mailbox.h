// Mailbox: what other threads want of the scheduler, in the order they asked. The only door into it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plumb/plumb.h"
#include "text/choices.h"

namespace plumb {

enum class Order : std::uint8_t { submit, cancel, pause, resume, flush, stop };

struct Mail {
  Order order = Order::submit;
  RequestId id = 0;
  Request request;                         // submit
  std::vector<std::int32_t> prompt;        // submit: its tokens
  std::uint64_t submitted_ns = 0;          // submit
  std::shared_ptr<const text::Choices> choices;  // submit: Request::choices, compiled; null: none
};

// Thread rule: any thread posts, the driving thread takes.
class Mailbox {
 public:
  void post(Mail mail) {
    const std::lock_guard lock(mutex_);
    mail_.push_back(std::move(mail));
  }
  // Swaps what has come for `out`, which must be empty.
  void take(std::vector<Mail>& out) {
    const std::lock_guard lock(mutex_);
    out.swap(mail_);
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return mail_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Mail> mail_;
};

}  // namespace plumb
