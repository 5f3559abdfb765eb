// Torch's hooks for an accelerator. A simulation with its own dispatch key passes the interface of
// that key.
#pragma once

#include "device/device.h"
#include "device/generator.h"
#include "memory/host_memory.h"
#include "memory/memory.h"

#include <new>
#include <utility>

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

// Construct Own in the memory of `kept`, the hooks that torch has installed for a key. It installs
// them when they are first asked for, and keeps them. Hooks have no data.
template <typename Own, typename Interface, typename... Arguments>
void take_the_place_of(const Interface& kept, Arguments&&... arguments) {
  static_assert(sizeof(Own) == sizeof(Interface));
  new (&const_cast<Interface&>(kept)) Own(std::forward<Arguments>(arguments)...);
}

// Torch serves one accelerator, and refuses a second one that was built into it, even on a machine
// that has no such device (at::getAccelerator). There the hooks become those of a build without it.
// Torch does not refuse the spare key, PrivateUse1, and prefers it.
template <typename Interface>
void be_built_without(const Interface& kept) {
  if (kept.isBuilt() && !kept.isAvailable()) {
    take_the_place_of<Interface>(kept);
  }
}

} // namespace chip
