// Who the other ranks of a group are. Each announces himself in the store before the group is made,
// so that one who never comes can be named, and so that the others can look at his process and read
// his board as long as they live.
#pragma once

#include "collective/board.h"
#include "collective/process.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

namespace chip {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

struct Member {
  ProcessId process;
  std::shared_ptr<const Board> board; // null where it cannot be read
  std::string why_not; // then: the reason
};

class Roster {
 public:
  // Waits for the others. Raises c10::DistBackendError that names who has not announced himself
  // within the group's timeout.
  Roster(const GroupFacts& group, const StorePtr& store);

  Board& own_board() const {
    return *own_;
  }
  const Member& member(int rank) const {
    return members_.at(static_cast<size_t>(rank));
  }

 private:
  void announce(const GroupFacts& group, const StorePtr& store) const;
  void wait_for_all(const GroupFacts& group, const StorePtr& store) const;
  void meet(const GroupFacts& group, const StorePtr& store);

  std::shared_ptr<Board> own_;
  std::vector<Member> members_;
};

} // namespace chip
