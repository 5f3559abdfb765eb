// One call from its beginning to its end: it writes the call on the rank's board, and names the
// error that ends it.
#pragma once

#include "collective/roster.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace chip {

// The shared state of a group's calls; a call may outlive its group.
struct GroupState {
  GroupState(GroupFacts of_group, const StorePtr& store)
      : facts(std::move(of_group)), roster(facts, store), timeout_ms(facts.timeout.count()) {}

  const GroupFacts facts;
  const Roster roster; // initialized after facts
  std::atomic<int64_t> timeout_ms;
  std::atomic<uint64_t> collectives{0}; // their number
  std::atomic<uint64_t> point_to_point{0};

  std::atomic<uint64_t>& count_of(const Call& call) {
    return call.is_point_to_point ? point_to_point : collectives;
  }
  // The call's own timeout, or the group's.
  std::chrono::milliseconds timeout_of(const Call& call) const {
    using std::chrono::milliseconds;
    return call.timeout > milliseconds(0) ? call.timeout : milliseconds(timeout_ms);
  }
  // Raises c10::Error.
  void check_is_up(bool is_up) const {
    TORCH_CHECK(is_up, facts.library, " has been shut down. Fix: make another process group");
  }
};

// An error that is complete: no search for the ranks to blame is needed.
struct Explained : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CallRecord {
 public:
  // Gives the call its number.
  CallRecord(std::shared_ptr<GroupState> group, const Call& call);

  const GroupState& group() const {
    return *group_;
  }
  const BoardLine& line() const {
    return line_;
  }

  void post() const noexcept;
  void finish() const noexcept;
  // The error to raise for a failure while the call was passed on: with the call's name.
  std::exception_ptr refused(const std::exception_ptr& error) const;
  // The error to raise for a later failure: with the call's name, number and group, and the missing
  // ranks.
  std::exception_ptr failed(const std::exception_ptr& error);
  // True if a failure is final: an exceeded time limit of a caller is not.
  bool has_failed();

  std::string beginning() const; // "simccl's all_reduce on rank 0 of 2"

 private:
  std::string whole_call() const; // "call #5 of the default group, all_reduce of …"

  const std::shared_ptr<GroupState> group_;
  const Board::Series series_;
  BoardLine line_;
  std::mutex mutex_;
  std::exception_ptr failure_; // the first failure; other ranks leave after they have failed
};

} // namespace chip
