// Pinned host memory.
#include "device/device.h"
#include "memory/host_memory.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <functional>
#include <map>
#include <mutex>

namespace chip {
namespace {

using c10::CachingAllocator::Stat;

struct Pinned {
  c10::DataPtr memory;
  size_t bytes;
};

std::mutex pinned_mutex;
// Start and size, the highest start first. Never destroyed: blocks outlive the library's statics.
auto& ranges = *new std::map<const char*, size_t, std::greater<>>;
Stat bytes_in_use;
Stat blocks;

void release_pinned(void* context) {
  auto* pinned = static_cast<Pinned*>(context);
  {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    ranges.erase(static_cast<const char*>(pinned->memory.get()));
    bytes_in_use.decrease(pinned->bytes);
    blocks.decrease(1);
  }
  delete pinned;
}

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    use();
    auto* pinned = new Pinned{c10::GetCPUAllocator()->allocate(bytes), bytes};
    auto* data = pinned->memory.get();
    std::lock_guard<std::mutex> lock(pinned_mutex);
    if (data != nullptr) {
      ranges[static_cast<const char*>(data)] = bytes;
    }
    bytes_in_use.increase(bytes);
    blocks.increase(1);
    return {data, pinned, &release_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  // Blocks are not reused: each reader of a block holds it.
  bool record_event(void*, void*, c10::Stream) override {
    return true;
  }
  void empty_cache() override {} // nothing is cached
  at::HostStats get_stats() override {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    at::HostStats stats;
    stats.allocations = stats.active_requests = blocks;
    stats.allocated_bytes = stats.active_bytes = bytes_in_use;
    stats.num_host_alloc = blocks.allocated;
    stats.num_host_free = blocks.freed;
    return stats;
  }
  void reset_accumulated_stats() override {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    bytes_in_use.reset_accumulated();
    blocks.reset_accumulated();
  }
  void reset_peak_stats() override {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    bytes_in_use.reset_peak();
    blocks.reset_peak();
  }
};

PinnedAllocator the_pinned_allocator;
REGISTER_HOST_ALLOCATOR(kDeviceType, &the_pinned_allocator)

} // namespace

c10::Allocator* pinned_allocator() {
  return &the_pinned_allocator;
}

bool is_pinned(const void* data) {
  const auto* address = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(pinned_mutex);
  const auto range = ranges.lower_bound(address); // the last range that starts at or before it
  return range != ranges.end() && address < range->first + range->second;
}

} // namespace chip
