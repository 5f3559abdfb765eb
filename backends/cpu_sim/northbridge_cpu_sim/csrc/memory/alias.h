// Device tensors as CPU tensors over the same memory, and back.
#pragma once

#include "chip.h"

#include <ATen/core/Tensor.h>

namespace chip {

inline bool on_chip(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->device_type() == kDeviceType;
}

// What is said of a write to a tensor that torch._efficientzerotensor made.
constexpr const char* kZerosWritten =
    "a tensor of zeros without memory was written. Fix: write to its clone()";

// A CPU tensor on a device tensor's memory, for the duration of a CPU kernel: autograd ignores it,
// and its block is charged to the device only while the device tensor lives.
at::Tensor host_alias(const at::Tensor& device);

// The same for a kernel that is run again later: it keeps the device's block.
at::Tensor recorded_host_alias(const at::Tensor& device);

// A CPU tensor for other work that outlasts the call: it keeps the device's block until it is dropped.
at::Tensor owning_host_alias(const at::Tensor& device);

// The alias of a tensor on the chip; any other tensor unchanged.
inline at::Tensor alias_if_on_chip(const at::Tensor& tensor) {
  return tensor.defined() && on_chip(tensor) ? host_alias(tensor) : tensor;
}

// A device tensor on a device storage, with the shape of a CPU tensor. Views have the key set of
// their base.
at::Tensor shaped_as(const at::Tensor& host, c10::Storage device);
// The same, of a kernel's result: it becomes the device tensor itself, if nothing else has it.
at::Tensor turned_into(at::Tensor host, c10::Storage device);
at::Tensor view_of(const at::Tensor& base, const at::Tensor& host);

// Copies sizes, strides and offset from the alias to its device tensor.
void follow_shape(const at::Tensor& device, const at::Tensor& host);

} // namespace chip
