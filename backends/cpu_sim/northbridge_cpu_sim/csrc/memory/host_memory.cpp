#include "memory/host_memory.h"

#include "device/device.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace chip {

bool freed_memory_is_trapped() noexcept {
  return settings().trap_freed_memory;
}

void refuse_host_memory(size_t bytes) {
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "the host has no ",
      bytes,
      " bytes left for a block of ",
      type_name(),
      ": the memory of the simulated chip is the host's, so free some there, or ask for less");
  std::abort(); // not reached
}

void refuse_host_memory_of(const c10::Error& error) {
  const std::string_view said = error.msg();
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      said.find("DefaultCPUAllocator") == std::string_view::npos,
      "the host has no memory left for a result on ",
      type_name(),
      ", whose memory is the host's, so free some there, or ask for less: ",
      said);
}

namespace {

c10::DataPtr take_untrapped_memory(size_t bytes) {
  try {
    return c10::GetCPUAllocator()->allocate(bytes);
  } catch (const c10::Error&) { // it raises no other error
    refuse_host_memory(bytes);
  }
}

} // namespace

c10::DataPtr take_host_memory(size_t bytes) {
  auto memory =
      freed_memory_is_trapped() ? take_trapped_memory(bytes) : take_untrapped_memory(bytes);
  if (settings().nan_in_fresh_memory) {
    std::memset(memory.get(), 0xFF, bytes);
  }
  return memory;
}

} // namespace chip
