// The other ranks of a group. Each announces itself in the store before the group is created. So a
// missing rank can be named, and the others can examine its process and read its board while they
// live.
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
  std::shared_ptr<const Board> board; // null if it cannot be read
  std::string why_not; // the reason if it is null
};

class Roster {
 public:
  // Waits for the other ranks. Raises c10::DistBackendError with the names of ranks that did not
  // announce themselves within the group's timeout.
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
