// The calls that a device is capturing, for a graph. A capture belongs to the device: it has the calls
// of every thread, such as autograd's.
#pragma once

#include "chip.h"

#include <c10/core/Stream.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace chip {

struct RecordedCall {
  std::string name; // as in torch, such as aten::add.Tensor
  std::function<void()> again; // it keeps the memory that the call uses
};

struct Recording {
  c10::DeviceIndex index = 0;
  c10::StreamId stream = 0;
  std::mutex mutex; // for the members below
  std::vector<RecordedCall> calls;
  std::string refusal; // of the first call that no graph can hold; the recording is useless then
};

namespace detail {
extern std::atomic<int> capturing; // the index of the device that captures, or -1
} // namespace detail

inline bool is_capturing(c10::DeviceIndex index) noexcept {
  return C10_UNLIKELY(detail::capturing.load(std::memory_order_acquire) == index);
}

// Raises if a device of this process captures already.
std::shared_ptr<Recording> begin_recording(c10::DeviceIndex index);
void end_recording() noexcept;

// Adds a call that has been done, on a device that is capturing.
void record(std::string name, std::function<void()> again);

// Raises, and makes the capture useless, if the device is capturing: `what` cannot be replayed, and
// `fix` says what to do instead.
void refuse_while_capturing(
    c10::DeviceIndex index, const std::string& what, const std::string& fix);

} // namespace chip
