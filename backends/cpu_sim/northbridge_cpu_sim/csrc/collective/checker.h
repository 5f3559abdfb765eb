// Compares the calls of a group's ranks before any data is sent: a call waits in a queue, on a
// thread of the group, until every rank has written the same call on its board.
#pragma once

#include "collective/call_record.h"
#include "collective/collective_call.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

namespace chip {

class Checker {
 public:
  explicit Checker(std::shared_ptr<GroupState> group);
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Returns at once; `perform` does the whole call. The work fails if the ranks disagree, or if a
  // rank does not come in time. Raises c10::Error after stop().
  WorkPtr enqueue(
      std::shared_ptr<CallRecord> record, const Call& call, std::function<void()> perform);
  // Waits briefly for queued calls, and ends. The caller must not hold the GIL.
  void stop();

 private:
  struct Item;
  void loop();
  void carry_out(Item& item);
  void wait_for_all(const Item& item);
  [[noreturn]] void refuse(const Item& item) const;

  const std::shared_ptr<GroupState> group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Item>> queue_;
  std::atomic<bool> stopping_{false};
  std::chrono::steady_clock::time_point end_of_grace_; // set before stopping
  const int process_; // a forked process does not have the thread
  std::thread thread_;
};

} // namespace chip
