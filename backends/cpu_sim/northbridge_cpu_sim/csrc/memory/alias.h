// Device tensors as CPU tensors over the same memory, and back.
#pragma once

#include "chip.h"

#include <ATen/core/Tensor.h>

namespace chip {

inline bool on_chip(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->device_type() == kDeviceType;
}

// A CPU tensor over a device tensor's memory, for the length of a CPU kernel: it takes part in no
// autograd, and its block may be charged to the device no longer than the device tensor lives.
at::Tensor host_alias(const at::Tensor& device);

// The same for work that goes on after the call: it keeps the device's block until it is dropped.
at::Tensor owning_host_alias(const at::Tensor& device);

// The alias of a tensor on the chip; any other tensor as it is.
inline at::Tensor alias_if_on_chip(const at::Tensor& tensor) {
  return tensor.defined() && on_chip(tensor) ? host_alias(tensor) : tensor;
}

// A device tensor over a device storage, shaped as a CPU tensor. Views carry the key set of their
// base.
at::Tensor shaped_as(const at::Tensor& host, c10::Storage device);
at::Tensor view_of(const at::Tensor& base, const at::Tensor& host);

// Copies sizes, strides and offset from the alias to the tensor it was made of.
void follow_shape(const at::Tensor& device, const at::Tensor& host);

} // namespace chip
