#include "transfer_work.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/util/thread_name.h>

#include <algorithm>

namespace chip {

void Waiters::wait_for(c10::intrusive_ptr<TransferWork> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& waiter : waiters_) {
    if (*waiter.is_done) {
      waiter.thread.join();
    }
  }
  waiters_.erase(
      std::remove_if(
          waiters_.begin(),
          waiters_.end(),
          [](const Waiter& waiter) { return !waiter.thread.joinable(); }),
      waiters_.end());
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  c10::weak_intrusive_ptr<TransferWork> weak(work);
  std::thread thread([work = std::move(work), is_done]() mutable {
    c10::setThreadName("simccl transfer");
    work->await_below();
    work.reset(); // may need the interpreter
    *is_done = true;
  });
  waiters_.push_back({std::move(weak), std::move(is_done), std::move(thread)});
}

void Waiters::stop() {
  std::vector<Waiter> last;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last.swap(waiters_);
  }
  for (auto& waiter : last) {
    if (const auto work = waiter.work.lock()) {
      work->abort();
    }
    waiter.thread.join();
  }
}

TransferWork::TransferWork(WorkPtr below, int rank, std::shared_ptr<Waiters> waiters)
    : Work(rank, below->retrieveOpType()),
      below_(std::move(below)),
      waiters_(std::move(waiters)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get())) {}

bool TransferWork::isCompleted() {
  have_awaited();
  return Work::isCompleted();
}

int TransferWork::sourceRank() const {
  return below_->sourceRank();
}

bool TransferWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout && is_mine_to_await()) {
    await_below();
  } else {
    have_awaited();
  }
  return Work::wait(timeout);
}

void TransferWork::abort() {
  below_->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> TransferWork::getFuture() {
  have_awaited();
  return future_;
}

bool TransferWork::is_mine_to_await() {
  return !is_awaited_.exchange(true);
}

void TransferWork::have_awaited() {
  if (is_mine_to_await()) {
    waiters_->wait_for(c10::intrusive_ptr<TransferWork>::reclaim_copy(this));
  }
}

void TransferWork::await_below() noexcept {
  std::exception_ptr error;
  try {
    if (!below_->wait(kNoTimeout)) {
      error = std::make_exception_ptr(std::runtime_error("it was broken off"));
    }
  } catch (...) {
    error = std::current_exception();
  }
  finish(error);
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue());
  }
}

} // namespace chip
