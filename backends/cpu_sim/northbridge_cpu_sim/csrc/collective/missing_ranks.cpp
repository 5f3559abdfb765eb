#include "collective/missing_ranks.h"

#include <cstring>

namespace chip {
namespace {

uint64_t bit(int rank) {
  return rank < 64 ? uint64_t{1} << rank : 0;
}

class Search {
 public:
  Search(
      const GroupFacts& group, const Roster& roster, Board::Series series, const BoardLine& mine)
      : group_(group), roster_(roster), series_(series), mine_(mine) {}

  Missing find(bool timed_out) {
    // The worst first: a late rank is not to blame for a connection that a dead rank broke.
    each(&Search::lost);
    follow_blame();
    each(&Search::elsewhere);
    if (timed_out || found_.findings.empty()) {
      each(&Search::late);
    }
    if (found_.findings.empty()) {
      found_.blamed = blamed_by_others_;
      each(&Search::left_after_failure);
    }
    if (found_.findings.empty()) {
      each(&Search::unseen);
    }
    return std::move(found_);
  }

 private:
  using Look = std::string (Search::*)(int rank);

  // Result of each look at a rank: a sentence about it, or nothing.
  void each(Look look) {
    for (int rank = 0; rank < group_.size; ++rank) {
      const bool concerned = series_ == kCollective || mine_.signature.peer < 0 ||
          mine_.signature.peer == rank;
      if (concerned) {
        look_at(rank, look);
      }
    }
  }
  void look_at(int rank, Look look) {
    if (rank == group_.rank || (found_.blamed & bit(rank)) != 0) {
      return;
    }
    const auto said = (this->*look)(rank);
    if (!said.empty()) {
      found_.findings.push_back(c10::str(rank_in_words(group_, roster_, rank), " ", said));
      found_.blamed |= bit(rank);
    }
  }

  // A peer that failed because of another rank is not the missing rank.
  void follow_blame() {
    for (int rank = 0; rank < group_.size; ++rank) {
      if ((blamed_by_others_ & bit(rank)) != 0) {
        look_at(rank, &Search::lost);
      }
    }
  }

  std::string lost(int rank) {
    const auto& member = roster_.member(rank);
    if (!member.board) {
      return "";
    }
    const auto fate = fate_of(member.process);
    const auto line = last_line(rank);
    if (fate == Fate::stopped) {
      return "is stopped (SIGSTOP, or a debugger)" + and_its_last(rank);
    }
    // A rank that left because its call had failed is not the missing rank.
    if (line && line->progress == Progress::failed &&
        (fate == Fate::gone || series_ != kCollective)) {
      blamed_by_others_ |= line->blamed;
      return "";
    }
    const bool left_in_peace = series_ == kCollective && called(rank) && line &&
        line->progress == Progress::finished;
    return fate == Fate::gone && !left_in_peace ? "has ended" + and_its_last(rank) : "";
  }

  std::string elsewhere(int rank) {
    const auto theirs = same_call(rank);
    if (!theirs || agree(mine_.signature, group_.rank, theirs->signature, rank)) {
      return "";
    }
    return "called " + theirs->signature.in_words(group_) + " instead";
  }

  std::string late(int rank) {
    const auto& member = roster_.member(rank);
    if (!member.board || fate_of(member.process) != Fate::running) {
      return "";
    }
    if (series_ != kCollective) {
      return mine_.signature.peer == rank ? "is alive" + and_its_last(rank) : "";
    }
    return called(rank) ? "" : "is alive and has not called it" + and_its_last(rank);
  }

  std::string left_after_failure(int rank) {
    const auto& member = roster_.member(rank);
    return member.board && fate_of(member.process) == Fate::gone
        ? "has ended" + and_its_last(rank)
        : "";
  }

  std::string unseen(int rank) {
    const auto& member = roster_.member(rank);
    return member.board ? "" : "cannot be looked at: " + member.why_not;
  }

  bool called(int rank) const {
    return roster_.member(rank).board->last(kCollective) >= mine_.number;
  }
  std::optional<BoardLine> last_line(int rank) const {
    const auto& board = *roster_.member(rank).board;
    return board.line(board.latest(), board.last(board.latest()));
  }
  // The call of another rank that should match this one.
  std::optional<BoardLine> same_call(int rank) const {
    const auto& board = roster_.member(rank).board;
    return board && series_ == kCollective ? board->line(kCollective, mine_.number) : std::nullopt;
  }

  std::string and_its_last(int rank) const {
    const auto& board = *roster_.member(rank).board;
    const auto series = board.latest();
    const auto number = board.last(series);
    if (number == 0) {
      return "; it has called nothing in this group";
    }
    const auto line = board.line(series, number);
    const auto call = line ? line->signature.in_words(group_) : std::string("a call");
    const char* progress = !line || line->progress == Progress::called ? "under way"
        : line->progress == Progress::finished                         ? "done"
                                                                       : "failed";
    if (series_ == kCollective && series == kCollective && number == mine_.number) {
      return c10::str("; it is in this call (", progress, ")");
    }
    return c10::str(
        "; its last call in this group is ", series == kCollective ? "#" : "send or receive #",
        number, " ", call, " (", progress, ")");
  }

  const GroupFacts& group_;
  const Roster& roster_;
  const Board::Series series_;
  const BoardLine& mine_;
  uint64_t blamed_by_others_ = 0;
  Missing found_;
};

} // namespace

Missing find_missing(
    const GroupFacts& group,
    const Roster& roster,
    Board::Series series,
    const BoardLine& mine,
    bool timed_out) {
  return Search(group, roster, series, mine).find(timed_out);
}

std::string rank_in_words(const GroupFacts& group, const Roster& roster, int rank) {
  return c10::str(
      "rank ", group.global(rank), " (process ", roster.member(rank).process.pid, ")");
}

} // namespace chip
