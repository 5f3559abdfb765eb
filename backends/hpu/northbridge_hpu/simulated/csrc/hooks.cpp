// Torch's hooks for HPU: torch looks up a class of this name in a registry, once.
#include "device/hooks.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>

namespace {

struct HPUHooks final : chip::Hooks<at::HPUHooksInterface> {
  explicit HPUHooks(at::HPUHooksArgs) {}

  bool hasHPU() const override {
    return true;
  }
  c10::Device getDeviceFromPtr(void*) const override {
    return {chip::kDeviceType, chip::current_device()};
  }
};

} // namespace

namespace at {
REGISTER_HPU_HOOKS(HPUHooks)
} // namespace at

namespace {

// A script, or a library, may have asked torch for its accelerator before. Then torch has installed
// hooks without an HPU. The real card avoids this in eager mode, where `import torch` loads the
// vendor's package.
bool settle_hooks() {
  const auto& kept = at::detail::getHPUHooks();
  if (!kept.hasHPU()) {
    chip::take_the_place_of<HPUHooks>(kept, at::HPUHooksArgs{});
  }
  chip::be_built_without(at::detail::getCUDAHooks());
  chip::be_built_without(at::detail::getXPUHooks());
  return true;
}

[[maybe_unused]] const bool settled = settle_hooks();

} // namespace
