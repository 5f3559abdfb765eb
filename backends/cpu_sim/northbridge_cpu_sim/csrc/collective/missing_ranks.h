// The ranks that keep a call of this rank from its end, according to the processes of the other
// ranks and their boards.
#pragma once

#include "collective/roster.h"

#include <string>
#include <vector>

namespace chip {

struct Missing {
  uint64_t blamed = 0; // a bit for each of the first 64 ranks
  std::vector<std::string> findings; // a sentence for each rank
};

// `timed_out` is true if the call waited too long, and did not lose its connection. Then living
// ranks without the call are to blame too.
Missing find_missing(
    const GroupFacts& group,
    const Roster& roster,
    Board::Series series,
    const BoardLine& mine,
    bool timed_out);

// "rank 2 (process 4711)"
std::string rank_in_words(const GroupFacts& group, const Roster& roster, int rank);

} // namespace chip
