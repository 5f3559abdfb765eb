// A process group, as torch describes it to a library.
#pragma once

#include <c10/util/StringUtil.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace chip {

struct GroupFacts {
  std::string library; // "simccl"
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int64_t> global_ranks; // empty for the group of all
  std::chrono::milliseconds timeout{};

  // The user's number for a rank of the group.
  int64_t global(int of_group) const {
    return global_ranks.empty() ? of_group : global_ranks.at(static_cast<size_t>(of_group));
  }
  // "rank 0 of 2"; users count only the ranks of the default group.
  std::string here_in_words() const {
    return global_ranks.empty() ? c10::str("rank ", rank, " of ", size)
                                : c10::str("rank ", global(rank));
  }
  std::string in_words() const {
    return global_ranks.empty()
        ? "the default group"
        : c10::str("group '", name, "' (ranks ", c10::Join(", ", global_ranks), ")");
  }
};

} // namespace chip
