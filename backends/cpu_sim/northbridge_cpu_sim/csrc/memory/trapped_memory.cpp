// Host memory that traps every touch after it was freed.
#include "memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>

namespace chip {
namespace {

constexpr size_t kKept = 4096; // the kernel limits a process to about 65000 mappings

// Read by the signal handler, so without a lock.
struct Freed {
  std::atomic<uintptr_t> start{0};
  std::atomic<size_t> pages{0}; // in bytes
  std::atomic<size_t> bytes{0};
};

std::array<Freed, kKept> freed;
std::mutex trapped_mutex; // for threads that free memory
size_t next = 0;
struct sigaction before;

struct TrappedBlock {
  void* start;
  size_t pages;
  size_t bytes;
};

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void on_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const auto& block : freed) {
    const auto start = block.start.load();
    if (start != 0 && address >= start && address < start + block.pages.load()) {
      std::array<char, 256> text{};
      const int length = std::snprintf(
          text.data(),
          text.size(),
          "northbridge: memory of the simulated chip was touched after it was freed: byte %zu of a "
          "block of %zu. Code that keeps its address has to keep the tensor.\n",
          static_cast<size_t>(address - start),
          block.bytes.load());
      [[maybe_unused]] const auto written =
          write(STDERR_FILENO, text.data(), static_cast<size_t>(length));
      break;
    }
  }
  // The touch is repeated after the return, and ends as without this handler.
  sigaction(SIGSEGV, &before, nullptr);
}

void watch_faults() {
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &before);
}

void free_block(void* context) {
  auto* block = static_cast<TrappedBlock*>(context);
  // The pages themselves go back to the system at once; only their addresses are kept.
  madvise(block->start, block->pages, MADV_DONTNEED);
  mprotect(block->start, block->pages, PROT_NONE);
  {
    const std::lock_guard<std::mutex> lock(trapped_mutex);
    auto& slot = freed[next++ % kKept];
    const auto oldest = slot.start.exchange(0);
    if (oldest != 0) {
      munmap(reinterpret_cast<void*>(oldest), slot.pages);
    }
    slot.pages = block->pages;
    slot.bytes = block->bytes;
    slot.start = reinterpret_cast<uintptr_t>(block->start);
  }
  delete block;
}

} // namespace

c10::DataPtr take_trapped_memory(size_t bytes) {
  static const bool watching = (watch_faults(), true);
  (void)watching;
  const auto pages = whole_pages(bytes);
  void* start =
      mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    refuse_host_memory(bytes);
  }
  return {start, new TrappedBlock{start, pages, bytes}, &free_block, c10::Device(c10::kCPU)};
}

} // namespace chip
