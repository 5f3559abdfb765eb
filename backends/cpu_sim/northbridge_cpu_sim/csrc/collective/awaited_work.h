// A call under way that is done only once somebody waits for it: with Gloo a send, a receive, a
// reduce-scatter; and what is finished here, as an average. Who asks whether it is done, wants a
// future, or waits for a limited time, has a thread wait for him.
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
  // `timeout` is how long the library below may take from when somebody waits; `complete`, if
  // any, does what is left then.
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
  bool is_mine_to_await(); // once
  void have_awaited();
  void await_below() noexcept;
  void end(const std::exception_ptr& error);
  // Of a group that has been shut down. Returns whether it is done with.
  bool break_off();

  const WorkPtr below_;
  const std::function<void()> complete_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Waiters> waiters_;
  std::atomic<bool> is_awaited_{false};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The threads that wait for such calls of one group, and in which its futures are completed.
class Waiters {
 public:
  Waiters();

  // Knows the work from now on, so that it ends when the group does.
  void add(const c10::intrusive_ptr<AwaitedWork>& work);
  void wait_for(c10::intrusive_ptr<AwaitedWork> work);
  // Runs the task in a thread of that name. False, and nothing is run, once it was stopped.
  bool begin(const char* name, std::function<void()> task);
  // Breaks off what is not done, whether or not it is awaited. The caller does not hold the
  // interpreter.
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
  const int process_; // a forked one has no such threads
};

} // namespace chip
