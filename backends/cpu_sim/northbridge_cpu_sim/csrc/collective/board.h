// Where a rank writes down its calls in one group, for the others to read whatever becomes of it: a
// piece of shared memory that has no name, and is gone with the last process that has it open.
#pragma once

#include "collective/call_signature.h"

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>

namespace chip {

enum class Progress : uint32_t { called, finished, failed };

// One call, as it stood when it was read.
struct BoardLine {
  uint64_t number = 0;
  uint64_t turn = 0; // among the calls of both series
  Progress progress = Progress::called;
  uint64_t blamed = 0; // of a call that failed: a bit for each of the first 64 ranks
  CallSignature signature;
};
static_assert(std::is_trivially_copyable_v<BoardLine>);

// Collectives are numbered from 1 in the order of their calls, the same on every rank. Sends and
// receives have numbers of their own, which are this rank's affair.
class Board {
 public:
  enum class Series { collective, point_to_point };

  // A new board, of this process.
  Board();
  // Another process's: raises std::system_error where it cannot be opened.
  Board(int pid, int descriptor);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // What another process opens, while this board is there.
  int descriptor() const {
    return descriptor_;
  }

  void post(Series series, uint64_t number, const CallSignature& signature) noexcept;
  // Does nothing where newer calls have taken the line.
  void mark(Series series, uint64_t number, Progress progress, uint64_t blamed = 0) noexcept;

  uint64_t last(Series series) const noexcept; // 0 before the first
  // The series of the call that came last; collective before the first.
  Series latest() const noexcept;
  // Nothing where the line is not there yet, not there any more, or half written.
  std::optional<BoardLine> line(Series series, uint64_t number) const noexcept;

 private:
  struct Page;
  void map(bool writable);

  int descriptor_ = -1;
  Page* page_ = nullptr;
};

constexpr auto kCollective = Board::Series::collective;

} // namespace chip
