// Torch's hooks for an accelerator. A simulation with its own dispatch key passes the interface of
// that key.
#pragma once

#include "device/device.h"
#include "device/generator.h"
#include "memory/host_memory.h"
#include "memory/memory.h"

namespace chip {

template <typename Interface>
struct Hooks : Interface {
  using Interface::Interface;

  void init() const override {
    use();
  }
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return device_count() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return in_use() && within_reach(index);
  }

  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    exchangeDevice(index);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    use();
    return exchange_device(checked_index(index));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return make_generator(index);
  }
};

} // namespace chip
