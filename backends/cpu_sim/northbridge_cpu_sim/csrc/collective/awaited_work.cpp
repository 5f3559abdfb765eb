#include "collective/awaited_work.h"

#include "collective/call_record.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <unistd.h>

namespace chip {
namespace {

std::exception_ptr shut_down() {
  return std::make_exception_ptr(Explained("the group was shut down before it was done"));
}

} // namespace

Waiters::Waiters() : process_(getpid()) {}

void Waiters::add(const c10::intrusive_ptr<AwaitedWork>& work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(works_, [](const auto& other) { return other.expired(); });
  works_.emplace_back(work);
}

void Waiters::wait_for(c10::intrusive_ptr<AwaitedWork> work) {
  if (!begin("simccl wait", [work] { work->await_below(); })) {
    work->end(shut_down());
  }
}

bool Waiters::begin(const char* name, std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopped_) {
    return false;
  }
  std::erase_if(waiters_, [](Waiter& waiter) {
    const bool is_done = *waiter.is_done;
    if (is_done) {
      waiter.thread.join();
    }
    return is_done;
  });
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  std::thread thread([name, task = std::move(task), is_done]() mutable {
    c10::setThreadName(name);
    task();
    task = nullptr; // it may hold objects that need the GIL
    *is_done = true;
  });
  waiters_.push_back({std::move(is_done), std::move(thread)});
  return true;
}

void Waiters::stop() {
  std::vector<c10::weak_intrusive_ptr<AwaitedWork>> works;
  std::vector<Waiter> waiters;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
    works.swap(works_);
    waiters.swap(waiters_);
  }
  const bool is_forked = getpid() != process_;
  for (const auto& weak : works) {
    const auto work = weak.lock();
    // Gloo forgets the break if no thread waits yet.
    while (work && !work->break_off() && !is_forked) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  for (auto& waiter : waiters) {
    // A continuation of a future may hold the group's last reference.
    const bool is_this = waiter.thread.get_id() == std::this_thread::get_id();
    if (is_forked || is_this) {
      waiter.thread.detach();
    } else {
      waiter.thread.join();
    }
  }
}

AwaitedWork::AwaitedWork(
    WorkPtr below,
    std::function<void()> complete,
    int rank,
    std::chrono::milliseconds timeout,
    std::shared_ptr<Waiters> waiters)
    : Work(rank, below->retrieveOpType()),
      below_(std::move(below)),
      complete_(std::move(complete)),
      timeout_(timeout),
      waiters_(std::move(waiters)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get())) {}

bool AwaitedWork::isCompleted() {
  have_awaited();
  return Work::isCompleted();
}

int AwaitedWork::sourceRank() const {
  return below_->sourceRank();
}

bool AwaitedWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout && is_mine_to_await()) {
    await_below();
  } else {
    have_awaited();
  }
  return Work::wait(timeout);
}

void AwaitedWork::abort() {
  try {
    below_->abort();
  } catch (const c10::Error&) {
    return; // a Gloo reduce-scatter cannot be interrupted; it ends by its own timeout
  }
}

c10::intrusive_ptr<c10::ivalue::Future> AwaitedWork::getFuture() {
  have_awaited();
  return future_;
}

bool AwaitedWork::is_mine_to_await() {
  return !is_awaited_.exchange(true);
}

void AwaitedWork::have_awaited() {
  if (is_mine_to_await()) {
    waiters_->wait_for(c10::intrusive_ptr<AwaitedWork>::reclaim_copy(this));
  }
}

void AwaitedWork::await_below() noexcept {
  std::exception_ptr error;
  try {
    if (!below_->wait(timeout_)) {
      error = std::make_exception_ptr(std::runtime_error("it was aborted"));
    } else if (complete_) {
      complete_();
    }
  } catch (...) {
    error = std::current_exception();
  }
  end(error);
}

void AwaitedWork::end(const std::exception_ptr& error) {
  // The future first, as in Gloo: a thread that has waited for the work may read its value.
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue());
  }
  finish(error);
}

bool AwaitedWork::break_off() {
  if (is_mine_to_await()) {
    end(shut_down());
  } else if (!Work::isCompleted()) {
    abort();
  }
  return Work::isCompleted();
}

} // namespace chip
