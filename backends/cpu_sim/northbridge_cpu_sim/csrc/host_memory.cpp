#include "host_memory.h"

#include "trapped_memory.h"
#include "device.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace chip {

bool freed_memory_is_trapped() noexcept {
  return settings().trap_freed_memory;
}

c10::DataPtr take_host_memory(size_t bytes) {
  auto memory =
      freed_memory_is_trapped() ? take_trapped_memory(bytes) : c10::GetCPUAllocator()->allocate(bytes);
  if (settings().nan_in_fresh_memory) {
    std::memset(memory.get(), 0xFF, bytes);
  }
  return memory;
}

} // namespace chip
