// Errors that a device keeps until a thread synchronizes with it, as real chips do.
#pragma once

#include "device/device.h"

#include <atomic>
#include <string>

namespace chip {

// Keeps the first error of a device; the later errors follow from it.
void keep_error(c10::DeviceIndex index, const std::string& error);

namespace detail {
extern std::atomic<bool> any_error_kept;
void raise_error_of(c10::DeviceIndex index);
void refuse_after_error(c10::DeviceIndex index);
} // namespace detail

// Called by each wait for a device and each read from it: raises RuntimeError with the kept error,
// and again at every later call.
inline void raise_kept_error(c10::DeviceIndex index) {
  if (C10_UNLIKELY(detail::any_error_kept.load(std::memory_order_relaxed))) {
    detail::raise_error_of(index);
  }
}

// Called by every operation: a device whose error has been reported takes no more work.
inline void check_working(c10::DeviceIndex index) {
  if (C10_UNLIKELY(detail::any_error_kept.load(std::memory_order_relaxed))) {
    detail::refuse_after_error(index);
  }
}

} // namespace chip
