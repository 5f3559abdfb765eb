#include "graphs/recording.h"

#include "device/device.h"

#include <c10/util/Exception.h>

#include <utility>

namespace chip {
namespace {

std::mutex& current_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::shared_ptr<Recording>& current_recording() {
  static auto* recording = new std::shared_ptr<Recording>; // never destroyed: threads may outlive it
  return *recording;
}

std::shared_ptr<Recording> current_if_any() {
  const std::lock_guard<std::mutex> lock(current_mutex());
  return current_recording();
}

} // namespace

namespace detail {
std::atomic<int> capturing{-1};
} // namespace detail

std::shared_ptr<Recording> begin_recording(c10::DeviceIndex index) {
  const std::lock_guard<std::mutex> lock(current_mutex());
  TORCH_CHECK(
      current_recording() == nullptr,
      c10::Device(kDeviceType, index),
      " cannot begin to capture: ",
      c10::Device(kDeviceType, current_recording()->index),
      " is capturing a graph, and a process captures one at a time. Fix: end that capture first");
  current_recording() = std::make_shared<Recording>();
  current_recording()->index = index;
  detail::capturing.store(index, std::memory_order_release);
  return current_recording();
}

void end_recording() noexcept {
  const std::lock_guard<std::mutex> lock(current_mutex());
  detail::capturing.store(-1, std::memory_order_release);
  current_recording().reset();
}

void record(std::string name, std::function<void()> again) {
  if (const auto recording = current_if_any()) {
    const std::lock_guard<std::mutex> lock(recording->mutex);
    recording->calls.push_back({std::move(name), std::move(again)});
  }
}

void refuse_while_capturing(
    c10::DeviceIndex index, const std::string& what, const std::string& fix) {
  if (!is_capturing(index)) {
    return;
  }
  const auto refusal = c10::str(
      what, ", but ", c10::Device(kDeviceType, index), " is capturing a graph. Fix: ", fix);
  if (const auto recording = current_if_any()) {
    const std::lock_guard<std::mutex> lock(recording->mutex);
    if (recording->refusal.empty()) {
      recording->refusal = refusal;
    }
  }
  TORCH_CHECK(false, refusal);
}

} // namespace chip
