// Torch's hooks for XPU: torch looks up a class of this name in a registry, once.
#include "device/hooks.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

struct XPUHooks final : chip::Hooks<at::XPUHooksInterface> {
  bool hasXPU() const override {
    return true;
  }
  std::string showConfig() const override {
    return "XPU backend (simulated)";
  }
  int32_t getGlobalIdxFromDevice(const c10::Device& device) const override {
    return static_cast<int32_t>(chip::card(chip::checked_index(device.index())));
  }
  c10::DeviceIndex getNumGPUs() const override {
    return chip::device_count();
  }
  c10::DeviceIndex current_device() const override {
    return chip::current_device();
  }
  c10::Device getDeviceFromPtr(void*) const override {
    return {chip::kDeviceType, chip::current_device()};
  }
  void deviceSynchronize(c10::DeviceIndex index) const override {
    c10::impl::getDeviceGuardImpl(chip::kDeviceType)->synchronizeDevice(index);
  }
};

} // namespace

namespace at {
REGISTER_XPU_HOOKS(XPUHooks)
} // namespace at

namespace {

// Torch may have been asked for its accelerator before. Then it has installed hooks without an XPU.
bool settle_hooks() {
  const auto& kept = at::detail::getXPUHooks();
  if (!kept.hasXPU()) {
    chip::take_the_place_of<XPUHooks>(kept);
  }
  chip::be_built_without(at::detail::getCUDAHooks());
  return true;
}

[[maybe_unused]] const bool settled = settle_hooks();

} // namespace
