// The futures of a group's calls are completed here, and their continuations run: in the order in
// which the library finished the calls, and never in a thread of the library. A continuation may
// call the group and wait for that, as PowerSGD's hook of DDP does.
#pragma once

#include "collective/awaited_work.h"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace chip {

class Completions : public std::enable_shared_from_this<Completions> {
 public:
  explicit Completions(std::shared_ptr<Waiters> waiters);

  // Runs `complete` after the earlier ones, in a thread of the group, or in this thread after the
  // group's shutdown. It raises nothing.
  void add(std::function<void()> complete);
  // Lets the next one run if the caller is a completion: it may wait for a later call.
  void let_next_run();

 private:
  void begin();
  void run();

  const std::shared_ptr<Waiters> waiters_;
  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
  bool is_running_ = false; // one that has not let the next run
};

} // namespace chip
