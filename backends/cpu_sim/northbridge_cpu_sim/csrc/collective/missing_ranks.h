// Who keeps a call of this rank from its end: what the processes of the other ranks, and what they
// have written down, say about it.
#pragma once

#include "collective/roster.h"

#include <string>
#include <vector>

namespace chip {

struct Missing {
  uint64_t blamed = 0; // a bit for each of the first 64 ranks
  std::vector<std::string> findings; // a sentence for each rank
};

// `timed_out` is whether the call waited in vain, and not lost its connection: then, who is alive
// and has not called is to blame as well.
Missing find_missing(
    const GroupFacts& group,
    const Roster& roster,
    Board::Series series,
    const BoardLine& mine,
    bool timed_out);

// "rank 2 (process 4711)"
std::string rank_in_words(const GroupFacts& group, const Roster& roster, int rank);

} // namespace chip
