// What torch's device guards, streams and events do on the chip. Every kernel has ended when it
// returns, so a wait finds nothing to wait for; which stream is current, and when an event was
// recorded, is kept truthfully.
#include "device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

namespace chip {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using Clock = std::chrono::steady_clock;

struct Event {
  std::atomic<Clock::rep> recorded_at{0};
};

thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};
std::atomic<c10::StreamId> last_stream{0};

Device resolved(Device device) {
  return {kDeviceType, checked_index(device.index())};
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
  // No touch: the threads of autograd begin with it, where nothing may be raised or taken.
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
  void synchronizeDevice(DeviceIndex index) const override {
    use();
    checked_index(index);
  }

  Stream getStream(Device device) const override {
    auto on = resolved(device);
    return Stream(Stream::UNSAFE, on, current_streams[on.index()]);
  }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, resolved(device));
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    return getNewStream(device, 0);
  }
  Stream getNewStream(Device device, int) const override {
    use();
    return Stream(Stream::UNSAFE, resolved(device), ++last_stream);
  }
  Stream exchangeStream(Stream stream) const override {
    auto before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  bool queryStream(const Stream&) const override {
    return true;
  }
  void synchronizeStream(const Stream&) const override {
    use();
  }
  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(stream.id()));
  }

  void record(void** event, const Stream&, DeviceIndex, c10::EventFlag) const override {
    use();
    if (*event == nullptr) {
      *event = new Event;
    }
    static_cast<Event*>(*event)->recorded_at = Clock::now().time_since_epoch().count();
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* from, void* to, DeviceIndex) const override {
    TORCH_CHECK(
        from != nullptr && to != nullptr,
        "the time between two events was asked for, but one of them was never recorded");
    const Clock::duration between(
        static_cast<Event*>(to)->recorded_at - static_cast<Event*>(from)->recorded_at);
    return std::chrono::duration<double, std::milli>(between).count();
  }
};

C10_REGISTER_GUARD_IMPL(CHIP_KEY, Guard);

} // namespace
} // namespace chip
