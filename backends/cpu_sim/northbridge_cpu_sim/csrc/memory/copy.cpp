// Copies: within a device, between devices, and from and to the host, optionally non-blocking.
#include "device/device.h"
#include "device/device_errors.h"
#include "device/dtypes.h"
#include "faults/faults.h"
#include "graphs/recording.h"
#include "memory/alias.h"
#include "memory/host_memory.h"
#include "memory/memory.h"
#include "memory/stale.h"
#include "profiling/activity.h"
#include "streams/streams.h"

#include <ATen/ops/copy_native.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

namespace chip {
namespace {

using at::Tensor;
using c10::Stream;

void move(Tensor to, const Tensor& from, bool narrower) {
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  at::native::copy_(to, from, /*non_blocking=*/false);
  if (narrower) {
    narrow(to);
  }
}

// Host memory that is not pinned is read before the call returns, as on CUDA.
Tensor staged(const Tensor& from) {
  return is_pinned(from.const_data_ptr()) ? from : from.clone();
}

// A copy, in the CPU's terms.
struct Move {
  Tensor to;
  Tensor from;
  bool narrower; // than its dtype
  Stream stream; // of the copy
  const void* memory; // of that stream's device
  c10::DeviceIndex at; // the device for planned faults: the destination, if it is a device

  void operator()() const {
    const Activity kernel;
    move(to, from, narrower);
    kernel.end("aten::copy_", "", stream);
    corrupt_as_planned("aten::copy_", to, at);
  }
};

// The copy takes effect later; until then the destination holds values that cannot pass for data.
void move_later(const Move& copy) {
  make_stale(copy.to);
  Deferred work;
  work.memory.push_back(copy.memory);
  work.effect = [copy](bool forsaken) {
    if (!forsaken) {
      copy();
      return;
    }
    // The memory may be reused by now.
    TORCH_CHECK(
        !freed_memory_is_trapped(),
        "a non-blocking copy of ",
        copy.from.sizes(),
        " ",
        copy.from.scalar_type(),
        " on a stream of ",
        copy.stream.device(),
        " had not begun when its memory on the device was freed, which another stream had "
        "allocated. Fix: call record_stream() on the tensor, or wait for the copy before it goes");
  };
  defer(copy.stream, std::move(work));
}

// As on CUDA: a graph holds copies within the device, and those that do not wait, with pinned memory.
void refuse_uncapturable(const Tensor& to, const Tensor& from, bool non_blocking) {
  for (const auto& [tensor, other] : {std::pair(to, from), std::pair(from, to)}) {
    if (!on_chip(tensor) || tensor.device() == other.device()) {
      continue;
    }
    const bool held = !on_chip(other) && non_blocking && is_pinned(other.const_data_ptr());
    if (!held) {
      refuse_while_capturing(
          tensor.device().index(),
          c10::str("a tensor was copied from ", from.device(), " to ", to.device()),
          on_chip(to) ? "copy it before the capture, or from pinned memory with non_blocking=True"
                      : "copy it after the capture");
    }
  }
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  TORCH_CHECK(!self._is_zerotensor(), kZerosWritten);
  if (C10_UNLIKELY(source._is_zerotensor())) {
    return self.zero_();
  }
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
  const bool between = to_chip && from_chip && self.device() != source.device();
  const bool deferred = streams_are_deferred() && non_blocking &&
      (to_chip != from_chip || between) && self.numel() > 0;
  const bool captures = detail::capturing.load(std::memory_order_acquire) >= 0 && self.numel() > 0;
  if (C10_UNLIKELY(captures)) {
    refuse_uncapturable(self, source, non_blocking);
  }
  // The stream of a copy between devices does not record its destination, so that is kept.
  auto to = deferred && between ? owning_host_alias(self) : alias_if_on_chip(self);
  auto from = alias_if_on_chip(source);
  const bool narrower = to_chip && is_held_narrower(self.scalar_type());
  if (narrower && !from_chip) {
    check_fits(from, self.scalar_type());
  }
  const auto& on_device = from_chip ? source : self;
  const auto stream = current_stream(on_device.device().index());
  const auto at = (to_chip ? self : source).device().index();
  if (C10_UNLIKELY(captures) && is_capturing(on_device.device().index())) {
    const auto kept = [](const Tensor& tensor) {
      return on_chip(tensor) ? owning_host_alias(tensor) : tensor;
    };
    record(
        "aten::copy_",
        Move{kept(self), kept(source), narrower, stream, on_device.storage().data(), at});
  }
  if (deferred) {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    if (!from_chip) {
      from = staged(from);
    }
    move_later({to, from, narrower, stream, on_device.storage().data(), at});
    if (between) {
      wait_for(current_stream(self.device().index()), place_of(stream));
    }
    return self;
  }
  if (from_chip && !to_chip && !non_blocking) {
    raise_kept_error(source.device().index());
  }
  Move{to, from, narrower, stream, on_device.storage().data(), at}();
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("copy_", copy);
}

} // namespace chip
