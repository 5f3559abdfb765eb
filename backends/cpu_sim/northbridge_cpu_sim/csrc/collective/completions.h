// Where the futures of a group's calls are completed, and what follows on them runs: in the order in
// which the library was done with the calls, and never in a thread that the library needs. What
// follows may call the group again and wait for that, as PowerSGD's hook of DDP does.
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

  // Carries `complete` out after those that were given before, in a thread of the group's; in this
  // one where the group is shut down. It raises nothing.
  void add(std::function<void()> complete);
  // Lets the next one run, where the caller itself is one: it may wait for a call after its own.
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
