#include "device/released_gil.h" // first: it includes Python.h

#include "faults/fault_effects.h"

#include "device/device.h"
#include "device/dtypes.h"
#include "memory/alias.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <thread>
#include <unistd.h>

namespace chip {
namespace {

using Clock = std::chrono::steady_clock;

std::string of(const Event& event) {
  auto text = std::string(event.name);
  if (event.device >= 0) {
    text += c10::str(" on ", c10::Device(kDeviceType, event.device));
  }
  return text;
}

// Python's handlers run only in its main thread, and only where that checks for signals.
void look_for_signals() {
  if (!Py_IsInitialized()) {
    return;
  }
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

void sleep_until(Clock::time_point end) {
  constexpr std::chrono::milliseconds kAtMost(50);
  const ReleasedGil released;
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(kAtMost, end - now));
    look_for_signals();
  }
}

Clock::time_point in(double seconds) {
  return Clock::now() +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

[[noreturn]] void run_out_of_memory(const Fault& fault, const Event& event) {
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      event.device < 0 ? type_name() : c10::Device(kDeviceType, event.device).str(),
      " is out of memory in ",
      event.name,
      ": it was planned (",
      fault.text,
      ")");
  std::abort(); // not reached
}

at::Tensor element_of(const at::Tensor& host, int64_t number) {
  number %= host.numel();
  int64_t offset = host.storage_offset();
  for (auto dim = host.dim() - 1; dim >= 0; --dim) {
    offset += number % host.size(dim) * host.stride(dim);
    number /= host.size(dim);
  }
  return host.as_strided({}, {}, offset);
}

void flip(const at::Tensor& element, int64_t bit) {
  bit %= static_cast<int64_t>(element.element_size()) * 8;
  static_cast<uint8_t*>(element.data_ptr())[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
}

} // namespace

void happen(const Fault& fault, const Event& event) {
  if (fault.kind == "kill") {
    ::kill(::getpid(), SIGKILL);
    ::pause(); // until it has arrived
  } else if (fault.kind == "hang") {
    sleep_until(Clock::time_point::max());
  } else if (fault.kind == "slow") {
    sleep_until(in(fault.seconds));
  } else if (fault.kind == "oom") {
    run_out_of_memory(fault, event);
  } else if (fault.kind == "raise") {
    TORCH_CHECK(
        false,
        fault.message.empty() ? "the simulated chip failed" : fault.message,
        ", in ",
        of(event),
        ": it was planned (",
        fault.text,
        ")");
  }
}

void raise_lost(const Fault& fault, const Event& event) {
  TORCH_CHECK(
      false,
      "device ",
      c10::Device(kDeviceType, event.device),
      " was lost (planned fault: ",
      fault.text,
      "), and ",
      event.name,
      " needs it");
  std::abort(); // not reached
}

bool can_be_corrupted(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && tensor.numel() > 0 &&
      (on_chip(tensor) || tensor.device().is_cpu());
}

void corrupt(const Fault& fault, const at::Tensor& tensor) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const auto element = element_of(alias_if_on_chip(tensor), fault.element);
  const auto type = element.scalar_type();
  const bool has_nan = c10::isFloatingType(type) || c10::isComplexType(type);
  const auto value = fault.value.value_or(std::numeric_limits<double>::quiet_NaN());
  if (fault.bit || (!has_nan && value != value)) {
    flip(element, fault.bit.value_or(0));
    return;
  }
  element.fill_(value);
  if (is_held_narrower(type)) {
    narrow(element);
  }
}

} // namespace chip
