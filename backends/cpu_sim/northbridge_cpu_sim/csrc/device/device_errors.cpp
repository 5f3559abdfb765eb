#include "device/device_errors.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <array>
#include <mutex>

namespace chip {

namespace detail {
std::atomic<bool> any_error_kept{false};
} // namespace detail

namespace {

struct Kept {
  std::string error;
  bool told = false;
};

std::mutex errors_mutex;
std::array<Kept, kMaxDevices> kept;

} // namespace

void keep_error(c10::DeviceIndex index, const std::string& error) {
  const std::lock_guard<std::mutex> lock(errors_mutex);
  if (kept[index].error.empty()) {
    kept[index].error = error;
    detail::any_error_kept = true;
  }
}

void detail::raise_error_of(c10::DeviceIndex index) {
  const std::lock_guard<std::mutex> lock(errors_mutex);
  auto& of = kept[index];
  if (of.error.empty()) {
    return;
  }
  of.told = true;
  TORCH_CHECK(
      false,
      c10::Device(kDeviceType, index),
      " failed at ",
      of.error,
      "\nThe error is reported by the first call that waits for the device, and not by the "
      "operation that caused it; without NORTHBRIDGE_CPU_SIM_ERRORS=asynchronous it is raised "
      "where it happens. The device takes no more work in this process.");
}

void detail::refuse_after_error(c10::DeviceIndex index) {
  bool told = false;
  {
    const std::lock_guard<std::mutex> lock(errors_mutex);
    told = kept[index].told;
  }
  if (told) {
    raise_error_of(index);
  }
}

} // namespace chip
