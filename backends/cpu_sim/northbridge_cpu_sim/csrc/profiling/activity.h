// The device activity for torch's profiler: the kernels that ran while it recorded.
#pragma once

#include "streams/streams.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace chip {

extern std::atomic<bool> profiler_listens;

// Times one kernel while a profiler records: from the constructor to `end`, or not at all if the
// kernel raised.
class Activity {
 public:
  Activity() : start_(profiler_listens.load(std::memory_order_relaxed) ? now() : 0) {}
  // `name` as in torch, such as aten::add.Tensor; on the current stream of a device, or on a given
  // one.
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
