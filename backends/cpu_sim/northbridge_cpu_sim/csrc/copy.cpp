// Copies: within a device, from one to another, and from and to the host, where they may be
// non-blocking.
#include "activity.h"
#include "alias.h"
#include "device.h"
#include "device_errors.h"
#include "dtypes.h"
#include "faults.h"
#include "host_memory.h"
#include "memory.h"
#include "pinned.h"
#include "stale.h"
#include "streams.h"

#include <ATen/ops/copy_native.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace chip {
namespace {

using at::Tensor;

void move(Tensor to, const Tensor& from, bool narrower) {
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  at::native::copy_(to, from, /*non_blocking=*/false);
  if (narrower) {
    narrow(to);
  }
}

// Memory of the host that is not pinned is read before the call returns, as on CUDA.
Tensor staged(const Tensor& from) {
  return is_pinned(from.const_data_ptr()) ? from : from.clone();
}

// The copy takes effect later; until then the destination holds what nobody can take for data.
void move_later(Tensor to, const Tensor& from, bool narrower, const Tensor& on_device) {
  make_stale(to);
  const auto index = on_device.device().index();
  Deferred work;
  work.memory.push_back(on_device.storage().data());
  work.effect = [to, from, narrower, index](bool forsaken) {
    if (!forsaken) {
      move(to, from, narrower);
      return;
    }
    // The memory may be somebody else's by now.
    TORCH_CHECK(
        !freed_memory_is_trapped(),
        "a non-blocking copy of ",
        from.sizes(),
        " ",
        from.scalar_type(),
        " on a stream of ",
        c10::Device(kDeviceType, index),
        " had not begun when its memory on the device was freed, which another stream had "
        "allocated; call record_stream() on the tensor, or wait for the copy before it goes");
  };
  defer(current_stream(index), std::move(work));
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  use();
  meet_faults("aten::copy_", self, source);
  const bool to_chip = on_chip(self);
  const bool from_chip = on_chip(source);
  for (const auto* tensor : {&std::as_const(self), &source}) {
    if (on_chip(*tensor)) {
      check_working(tensor->device().index());
      catch_up(tensor->device().index());
    }
  }
  auto to = alias_if_on_chip(self);
  const auto from = alias_if_on_chip(source);
  const bool narrower = to_chip && is_held_narrower(self.scalar_type());
  if (narrower && !from_chip) {
    check_fits(from, self.scalar_type());
  }
  if (streams_are_deferred() && non_blocking && to_chip != from_chip && self.numel() > 0) {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    move_later(to, to_chip ? staged(from) : from, narrower, to_chip ? self : source);
    return self;
  }
  if (from_chip && !to_chip && !non_blocking) {
    raise_kept_error(source.device().index());
  }
  const Activity kernel;
  move(to, from, narrower);
  kernel.end("aten::copy_", "", (to_chip ? self : source).device().index());
  corrupt_as_planned("aten::copy_", self);
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("copy_", copy);
}

} // namespace chip
