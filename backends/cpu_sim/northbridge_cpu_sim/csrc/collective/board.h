// A rank's record of its calls in one group, which the others can read even after the rank dies:
// nameless shared memory, freed with the last process that has it open.
#pragma once

#include "collective/call_signature.h"

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>

namespace chip {

enum class Progress : uint32_t { called, finished, failed };

// One call, in its state at the time of reading.
struct BoardLine {
  uint64_t number = 0;
  uint64_t turn = 0; // among the calls of both series
  Progress progress = Progress::called;
  uint64_t blamed = 0; // for a failed call: a bit for each of the first 64 ranks
  CallSignature signature;
};
static_assert(std::is_trivially_copyable_v<BoardLine>);

// Collectives are numbered from 1 in the order of their calls, the same on every rank. Sends and
// receives have their own numbers on each rank.
class Board {
 public:
  enum class Series { collective, point_to_point };

  // A new board, owned by this process.
  Board();
  // Another process's board. Raises std::system_error if it cannot be opened.
  Board(int pid, int descriptor);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // The descriptor that another process opens, while this board exists.
  int descriptor() const {
    return descriptor_;
  }

  void post(Series series, uint64_t number, const CallSignature& signature) noexcept;
  // Does nothing if newer calls have reused the line.
  void mark(Series series, uint64_t number, Progress progress, uint64_t blamed = 0) noexcept;

  uint64_t last(Series series) const noexcept; // 0 before the first
  // The series of the latest call; collective before the first.
  Series latest() const noexcept;
  // Empty if the line is not there yet, is overwritten, or is half written.
  std::optional<BoardLine> line(Series series, uint64_t number) const noexcept;

 private:
  struct Page;
  void map(bool writable);

  int descriptor_ = -1;
  Page* page_ = nullptr;
};

constexpr auto kCollective = Board::Series::collective;

} // namespace chip
