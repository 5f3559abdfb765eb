#include "collective/completions.h"

#include <utility>

namespace chip {
namespace {

// The completions that run in this thread.
thread_local const Completions* whose_turn = nullptr;

} // namespace

Completions::Completions(std::shared_ptr<Waiters> waiters) : waiters_(std::move(waiters)) {}

void Completions::add(std::function<void()> complete) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(complete));
    if (std::exchange(is_running_, true)) {
      return;
    }
  }
  begin();
}

void Completions::let_next_run() {
  if (whose_turn != this) {
    return;
  }
  whose_turn = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_running_ = !queue_.empty();
    if (!is_running_) {
      return;
    }
  }
  begin();
}

void Completions::begin() {
  if (!waiters_->begin("simccl futures", [self = shared_from_this()] { self->run(); })) {
    run();
  }
}

void Completions::run() {
  const auto* const before = std::exchange(whose_turn, this);
  while (whose_turn == this) {
    std::function<void()> complete;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (queue_.empty()) {
        is_running_ = false;
        break;
      }
      complete = std::move(queue_.front());
      queue_.pop_front();
    }
    complete();
  }
  whose_turn = before;
}

} // namespace chip
