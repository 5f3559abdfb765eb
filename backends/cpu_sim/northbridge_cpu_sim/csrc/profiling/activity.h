// What torch's profiler is told of the devices: the kernels that ran while it listened.
#pragma once

#include "streams/streams.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace chip {

extern std::atomic<bool> profiler_listens;

// Times one kernel where a profiler listens: from its making until `end`, or nothing where that is
// not reached because the kernel raised.
class Activity {
 public:
  Activity() : start_(profiler_listens.load(std::memory_order_relaxed) ? now() : 0) {}
  // `name` as torch has it, such as aten::add.Tensor; on the current stream of a device, or on one
  // that is said.
  void end(const std::string& name, const std::string& overload, c10::DeviceIndex index) const {
    if (C10_UNLIKELY(start_ != 0)) {
      keep(name, overload, current_stream(index));
    }
  }
  void end(
      const std::string& name, const std::string& overload, const c10::Stream& stream) const {
    if (C10_UNLIKELY(start_ != 0)) {
      keep(name, overload, stream);
    }
  }

 private:
  static int64_t now();
  void keep(
      const std::string& name, const std::string& overload, const c10::Stream& stream) const;

  int64_t start_;
};

} // namespace chip
