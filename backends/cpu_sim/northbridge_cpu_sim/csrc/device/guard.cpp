// Torch's device guards, streams and events on the chip. Every kernel has ended when it returns. If
// streams are deferred, copies and collectives wait in the queue of their stream.
#include "device/autograd_threads.h"
#include "device/device.h"
#include "device/device_errors.h"
#include "device/dtypes.h"
#include "faults/faults.h"
#include "graphs/recording.h"
#include "memory/memory.h"
#include "streams/streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <chrono>

namespace chip {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using Clock = std::chrono::steady_clock;

// Only before a wait that the host asks for: autograd waits for streams in another way.
void refuse_wait(DeviceIndex index) {
  refuse_while_capturing(
      index, "the host waits for the device", "wait before the capture, or after it");
}

struct StreamEvent {
  Place place;
  std::atomic<Clock::rep> recorded_at{0};
};

// To and from every other such dtype: torch requires that of a device's supported dtypes.
bool can_be_converted(c10::ScalarType dtype) {
  const bool is_number = c10::isIntegralType(dtype, /*includeBool=*/true) ||
      c10::isFloatingType(dtype) || c10::isComplexType(dtype);
  return is_number && dtype != c10::ScalarType::Float4_e2m1fn_x2;
}

Device resolved(Device device) {
  return {kDeviceType, checked_index(device.index())};
}

// A thread that only polls must not poll for ever: the first answer is no, and the work is done by
// the next.
bool asked_whether_reached(const Place& place) {
  if (is_reached(place)) {
    return true;
  }
  reach(place);
  return false;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDeviceType;
  }

  Device exchangeDevice(Device device) const override {
    auto before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override {
    return {kDeviceType, current_device()};
  }
  // Not a touch: the threads of autograd begin with it, and must not raise or acquire here.
  void setDevice(Device device) const override {
    exchange_device(checked_index(device.index()));
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) {
      exchange_device(device.index());
    }
  }
  DeviceIndex deviceCount() const noexcept override {
    return reachable_count();
  }
  c10::DeviceCapability getDeviceCapability(Device) const override {
    c10::DeviceCapability capability; // all dtypes; their bits are in the order of the enum
    auto& bits = capability.capability_data.capability_bits;
    bits &= ~detail::lacking;
    for (int64_t type = 0; type < static_cast<int64_t>(c10::ScalarType::NumOptions); ++type) {
      if (!can_be_converted(static_cast<c10::ScalarType>(type))) {
        bits &= ~(uint64_t{1} << type);
      }
    }
    return capability;
  }
  void synchronizeDevice(DeviceIndex index) const override {
    use();
    index = checked_index(index);
    meet_faults("synchronize", index);
    refuse_wait(index);
    reach_all(index);
    raise_kept_error(index);
  }

  // Autograd calls it in the thread that calls a backward, before that begins.
  Stream getStream(Device device) const override {
    share_sequence_numbers();
    return current_stream(resolved(device).index());
  }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, resolved(device));
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    use();
    return pool_stream(resolved(device).index());
  }
  Stream getNewStream(Device device, int) const override {
    use();
    return make_stream(resolved(device).index());
  }
  // Autograd calls it in the thread of a device, before it runs a node.
  Stream exchangeStream(Stream stream) const override {
    share_sequence_numbers();
    refuse_bad_fork();
    return exchange_stream(Stream(Stream::UNSAFE, resolved(stream.device()), stream.id()));
  }
  bool queryStream(const Stream& stream) const override {
    refuse_bad_fork();
    return asked_whether_reached(place_of(stream));
  }
  void synchronizeStream(const Stream& stream) const override {
    use();
    meet_faults("synchronize", stream.device_index());
    refuse_wait(stream.device_index());
    reach(place_of(stream));
    raise_kept_error(stream.device_index());
  }
  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(stream.id()));
  }

  void record(void** event, const Stream& stream, DeviceIndex, c10::EventFlag) const override {
    use();
    if (*event == nullptr) {
      *event = new StreamEvent;
    }
    auto* recorded = static_cast<StreamEvent*>(*event);
    recorded->place = place_of(stream);
    recorded->recorded_at = Clock::now().time_since_epoch().count();
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override {
    delete static_cast<StreamEvent*>(event);
  }
  void block(void* event, const Stream& stream) const override {
    refuse_bad_fork();
    if (event != nullptr) {
      wait_for(stream, static_cast<StreamEvent*>(event)->place);
    }
  }
  bool queryEvent(void* event) const override {
    refuse_bad_fork();
    return event == nullptr || asked_whether_reached(static_cast<StreamEvent*>(event)->place);
  }
  void synchronizeEvent(void* event) const override {
    use();
    if (event != nullptr) {
      const auto& place = static_cast<StreamEvent*>(event)->place;
      meet_faults("synchronize", place.index);
      refuse_wait(place.index);
      reach(place);
      raise_kept_error(place.index);
    }
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    record_use(data, stream);
  }
  double elapsedTime(void* from, void* to, DeviceIndex) const override {
    refuse_bad_fork();
    TORCH_CHECK(
        from != nullptr && to != nullptr,
        "the time between two events was asked for, but one of them was never recorded");
    const Clock::duration between(
        static_cast<StreamEvent*>(to)->recorded_at - static_cast<StreamEvent*>(from)->recorded_at);
    return std::chrono::duration<double, std::milli>(between).count();
  }
};

C10_REGISTER_GUARD_IMPL(CHIP_KEY, Guard);

} // namespace
} // namespace chip
