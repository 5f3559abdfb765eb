// Torch's hooks for HPU: torch looks up a class of this name in a registry, once.
#include "device/hooks.h"

#include <ATen/detail/HPUHooksInterface.h>

#include <new>

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
// hooks without an HPU, and keeps them: ours are constructed in their memory. The real card avoids
// this in eager mode, where `import torch` loads the vendor's package.
bool take_the_place_of_earlier_hooks() {
  static_assert(sizeof(HPUHooks) == sizeof(at::HPUHooksInterface));
  auto& kept = const_cast<at::HPUHooksInterface&>(at::detail::getHPUHooks());
  if (!kept.hasHPU()) {
    new (&kept) HPUHooks(at::HPUHooksArgs{});
  }
  return true;
}

[[maybe_unused]] const bool placed = take_the_place_of_earlier_hooks();

} // namespace
