// A send or receive under way. Gloo's is done only once somebody waits for it: who asks whether it
// is done, wants a future, or waits for a limited time, has a thread wait for him.
#pragma once

#include "collective_call.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace chip {

class Waiters;

class TransferWork final : public c10d::Work {
 public:
  TransferWork(WorkPtr below, int rank, std::shared_ptr<Waiters> waiters);

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

  const WorkPtr below_;
  const std::shared_ptr<Waiters> waiters_;
  std::atomic<bool> is_awaited_{false};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The threads that wait for the transfers of one group.
class Waiters {
 public:
  void wait_for(c10::intrusive_ptr<TransferWork> work);
  // Breaks off what is still awaited. The caller does not hold the interpreter.
  void stop();

 private:
  struct Waiter {
    c10::weak_intrusive_ptr<TransferWork> work;
    std::shared_ptr<std::atomic<bool>> is_done;
    std::thread thread;
  };
  std::mutex mutex_;
  std::vector<Waiter> waiters_;
};

} // namespace chip
