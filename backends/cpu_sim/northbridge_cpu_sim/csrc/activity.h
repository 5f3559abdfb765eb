// What torch's profiler is told of the devices: the kernels that ran while it listened.
#pragma once

#include "chip.h"

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
  // `name` as torch has it, such as aten::add.Tensor.
  void end(const std::string& name, const std::string& overload, c10::DeviceIndex index) const {
    if (C10_UNLIKELY(start_ != 0)) {
      keep(name, overload, index);
    }
  }

 private:
  static int64_t now();
  void keep(const std::string& name, const std::string& overload, c10::DeviceIndex index) const;

  int64_t start_;
};

} // namespace chip
