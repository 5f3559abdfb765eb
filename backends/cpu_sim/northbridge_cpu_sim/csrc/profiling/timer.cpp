// Lets DistributedDataParallel time its steps on the chip; without it, torch warns in every run.
#include "chip.h"

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace chip {
namespace {

// Kernels have ended when they return, so the host's clock is the device's.
class StepTimer final : public c10d::Timer {
 public:
  explicit StepTimer(c10::Device) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto started = getTimeRef(start);
    const auto ended = getTimeRef(end);
    if (started == c10d::kUnsetTime || ended == c10d::kUnsetTime || ended < started) {
      return std::nullopt;
    }
    return ended - started;
  }
};

} // namespace
} // namespace chip

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, chip::kDeviceType, chip::StepTimer)
} // namespace c10d
