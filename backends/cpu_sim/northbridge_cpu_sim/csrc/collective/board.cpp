#include "collective/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace chip {
namespace {

constexpr size_t kLines = 64; // in each series

// A writer makes the version odd, writes, and makes it even again. A reader that finds it odd, or
// changed meanwhile, discards its read.
struct Slot {
  std::atomic<uint64_t> version;
  BoardLine line;
};

struct Lines {
  std::atomic<uint64_t> last;
  Slot slots[kLines];

  Slot& slot(uint64_t number) {
    return slots[number % kLines];
  }
};

template <typename Write>
void write(Slot& slot, const Write& change) noexcept {
  slot.version.fetch_add(1, std::memory_order_acq_rel);
  change(slot.line);
  slot.version.fetch_add(1, std::memory_order_release);
}

[[noreturn]] void refuse(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

struct Board::Page {
  Lines series[2];
  std::atomic<uint64_t> turns;

  Lines& lines(Series of) {
    return series[of == Series::collective ? 0 : 1];
  }
};

Board::Board() {
  descriptor_ = memfd_create("northbridge collectives", MFD_CLOEXEC);
  if (descriptor_ < 0) {
    refuse("memfd_create");
  }
  if (ftruncate(descriptor_, sizeof(Page)) != 0) {
    close(descriptor_);
    refuse("ftruncate");
  }
  map(true);
}

Board::Board(int pid, int descriptor) {
  const auto path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    refuse(path.c_str());
  }
  map(false);
  close(descriptor_);
  descriptor_ = -1;
}

void Board::map(bool writable) {
  void* memory = mmap(
      nullptr,
      sizeof(Page),
      writable ? PROT_READ | PROT_WRITE : PROT_READ,
      MAP_SHARED,
      descriptor_,
      0);
  if (memory == MAP_FAILED) {
    close(descriptor_);
    refuse("mmap");
  }
  page_ = static_cast<Page*>(memory); // zeros are an empty board
}

Board::~Board() {
  munmap(page_, sizeof(Page));
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

void Board::post(Series series, uint64_t number, const CallSignature& signature) noexcept {
  auto& lines = page_->lines(series);
  const auto turn = ++page_->turns;
  write(lines.slot(number), [&](BoardLine& line) {
    line.number = number;
    line.turn = turn;
    line.progress = Progress::called;
    line.blamed = 0;
    line.signature = signature;
  });
  lines.last.store(number, std::memory_order_seq_cst);
}

void Board::mark(Series series, uint64_t number, Progress progress, uint64_t blamed) noexcept {
  auto& slot = page_->lines(series).slot(number);
  if (slot.line.number == number) {
    write(slot, [&](BoardLine& line) {
      line.progress = progress;
      line.blamed = blamed;
    });
  }
}

uint64_t Board::last(Series series) const noexcept {
  return page_->lines(series).last.load(std::memory_order_seq_cst);
}

Board::Series Board::latest() const noexcept {
  const auto turn_of = [this](Series series) {
    const auto found = line(series, last(series));
    return found ? found->turn : 0;
  };
  return turn_of(Series::point_to_point) > turn_of(kCollective) ? Series::point_to_point
                                                                : kCollective;
}

std::optional<BoardLine> Board::line(Series series, uint64_t number) const noexcept {
  const auto& slot = page_->lines(series).slot(number);
  constexpr int kTries = 100; // its writer may be stopped in the middle
  for (int i = 0; i < kTries; ++i) {
    const auto before = slot.version.load(std::memory_order_acquire);
    const BoardLine line = slot.line;
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole =
        before % 2 == 0 && slot.version.load(std::memory_order_relaxed) == before;
    if (is_whole) {
      return line.number == number && number > 0 ? std::optional(line) : std::nullopt;
    }
  }
  return std::nullopt;
}

} // namespace chip
