#include "device/released_gil.h" // first: it includes Python.h

#include "device/autograd_threads.h"

#include "device/device.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <thread>

namespace chip {
namespace {

// An empty backward on the thread of one device: it begins after all earlier ones of that thread.
void pass_through(c10::DeviceIndex index) {
  const auto options = at::TensorOptions().device(c10::Device(kDeviceType, index));
  const auto leaf = at::empty({0}, options).requires_grad_();
  leaf.clone().backward(at::empty({0}, options));
}

std::atomic<uint64_t> latest_number{0};

} // namespace

void share_sequence_numbers() noexcept {
  if (!settings().autograd_threads) {
    return;
  }
  auto mine = at::sequence_number::peek();
  auto latest = latest_number.load(std::memory_order_relaxed);
  while (mine > latest && !latest_number.compare_exchange_weak(latest, mine)) {
  }
  for (; mine < latest; ++mine) {
    at::sequence_number::get_and_increment();
  }
}

void settle_autograd_threads() {
  if (!settings().autograd_threads || !in_use()) {
    return;
  }
  const ReleasedGil released;
  // On a thread that has never run Python, because a backward gets its caller's Python state.
  std::thread([] {
    try {
      for (c10::DeviceIndex index = 0; index < reachable_count(); ++index) {
        pass_through(index);
      }
    } catch (const c10::Error&) {
      // There are no such threads: a backward on the CPU ran before the chip was loaded.
    }
  }).join();
}

} // namespace chip
