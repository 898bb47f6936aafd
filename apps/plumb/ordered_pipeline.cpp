#include "ordered_pipeline.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace plumb::app {
namespace {

// Piece i lives in slot i % slots.size() from the moment a thread takes it until it is consumed.
class Ring {
 public:
  using Produce = std::function<void(std::uint64_t, std::vector<std::byte>&)>;

  Ring(std::uint64_t count, std::size_t slots) : count_(count), slots_(slots) {}

  void work(const Produce& produce) {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return stopped_ || next_ == count_ || next_ - consumed_ < slots_.size(); });
      if (stopped_ || next_ == count_) return;
      const std::uint64_t piece = next_++;
      Slot& slot = slots_[piece % slots_.size()];
      lock.unlock();
      std::exception_ptr error;
      try {
        produce(piece, slot.bytes);
      } catch (...) {  // memory ran out: thrown again by take()
        error = std::current_exception();
      }
      lock.lock();
      if (error != nullptr) error_ = error;
      slot.ready = true;
      ready_.notify_one();
    }
  }

  std::span<const std::byte> take(std::uint64_t piece) {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[piece % slots_.size()];
    ready_.wait(lock, [&] { return slot.ready; });
    if (error_ != nullptr) std::rethrow_exception(error_);
    return slot.bytes;
  }

  void give_back(std::uint64_t piece) {
    const std::lock_guard lock(mutex_);
    slots_[piece % slots_.size()].ready = false;
    consumed_ = piece + 1;
    room_.notify_all();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    room_.notify_all();
  }

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    bool ready = false;
  };
  const std::uint64_t count_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  std::uint64_t next_ = 0;
  std::uint64_t consumed_ = 0;
  std::exception_ptr error_;
  bool stopped_ = false;
};

// Ends and joins the threads on every way out.
class Crew {
 public:
  Crew(Ring& ring, int threads, const Ring::Produce& produce) : ring_(ring) {
    for (int i = 0; i < threads; ++i) {
      try {
        threads_.emplace_back([&ring, &produce] { ring.work(produce); });
      } catch (const std::system_error&) {  // fewer threads do the same work
        if (threads_.empty()) throw;
        break;
      }
    }
  }
  ~Crew() {
    ring_.stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

 private:
  Ring& ring_;
  std::vector<std::thread> threads_;
};

}  // namespace

Status ordered_pipeline(std::uint64_t count, int threads,
                        const std::function<void(std::uint64_t, std::vector<std::byte>&)>& produce,
                        const std::function<Status(std::uint64_t, std::span<const std::byte>)>& consume) {
  if (threads <= 1 || count <= 1) {
    std::vector<std::byte> bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      produce(i, bytes);
      if (auto status = consume(i, bytes); !status.ok()) return status;
    }
    return {};
  }
  Ring ring(count, static_cast<std::size_t>(threads) * 2 + 1);
  const Crew crew(ring, threads, produce);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (auto status = consume(i, ring.take(i)); !status.ok()) return status;
    ring.give_back(i);
  }
  return {};
}

}  // namespace plumb::app
