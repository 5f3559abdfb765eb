// A pending call that is done only when a thread waits for it: a send, a receive or a
// reduce-scatter of Gloo, and a call finished here, such as an average. A thread that queries it,
// wants its future, or waits for a limited time, gets a helper thread that waits.
#pragma once

#include "collective/collective_call.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace chip {

class Waiters;

class AwaitedWork final : public c10d::Work {
 public:
  // `timeout` is the time limit of the library below, from the begin of a wait; `complete`, if set,
  // finishes the call after it.
  AwaitedWork(
      WorkPtr below,
      std::function<void()> complete,
      int rank,
      std::chrono::milliseconds timeout,
      std::shared_ptr<Waiters> waiters);

  bool isCompleted() override;
  int sourceRank() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  friend class Waiters;
  bool is_mine_to_await(); // true only once
  void have_awaited();
  void await_below() noexcept;
  void end(const std::exception_ptr& error);
  // For a group that has been shut down. Returns true if the call is done.
  bool break_off();

  const WorkPtr below_;
  const std::function<void()> complete_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Waiters> waiters_;
  std::atomic<bool> is_awaited_{false};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The threads that wait for such calls of one group, and that complete its futures.
class Waiters {
 public:
  Waiters();

  // Registers the work, so that it ends when the group does.
  void add(const c10::intrusive_ptr<AwaitedWork>& work);
  void wait_for(c10::intrusive_ptr<AwaitedWork> work);
  // Runs the task in a thread of that name. Returns false, and runs nothing, after stop().
  bool begin(const char* name, std::function<void()> task);
  // Interrupts unfinished calls, awaited or not. The caller must not hold the GIL.
  void stop();

 private:
  struct Waiter {
    std::shared_ptr<std::atomic<bool>> is_done;
    std::thread thread;
  };
  std::mutex mutex_;
  bool is_stopped_ = false;
  std::vector<c10::weak_intrusive_ptr<AwaitedWork>> works_;
  std::vector<Waiter> waiters_;
  const int process_; // a forked process does not have the threads
};

} // namespace chip
