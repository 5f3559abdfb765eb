#include "pinned.h"

#include "device.h"

#include <c10/core/CPUAllocator.h>

#include <functional>
#include <map>
#include <mutex>

namespace chip {
namespace {

struct Pinned {
  c10::DataPtr memory;
};

std::mutex mutex;
std::map<const char*, size_t, std::greater<>> ranges; // start and size, the highest start first

void release(void* context) {
  auto* pinned = static_cast<Pinned*>(context);
  {
    std::lock_guard<std::mutex> lock(mutex);
    ranges.erase(static_cast<const char*>(pinned->memory.get()));
  }
  delete pinned;
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    use();
    auto* pinned = new Pinned{c10::GetCPUAllocator()->allocate(bytes)};
    auto* data = pinned->memory.get();
    if (data != nullptr) {
      std::lock_guard<std::mutex> lock(mutex);
      ranges[static_cast<const char*>(data)] = bytes;
    }
    return {data, pinned, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

} // namespace

c10::Allocator* pinned_allocator() {
  static PinnedAllocator allocator;
  return &allocator;
}

bool is_pinned(const void* data) {
  const auto* address = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(mutex);
  const auto range = ranges.lower_bound(address); // the last one that starts at or before it
  return range != ranges.end() && address < range->first + range->second;
}

} // namespace chip
