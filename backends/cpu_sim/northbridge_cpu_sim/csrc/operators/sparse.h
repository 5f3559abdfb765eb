// Sparse COO tensors of the device as sparse CPU tensors over the same memory, and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace chip {

// The conversion of a dense part.
using Crossing = c10::function_ref<at::Tensor(const at::Tensor&)>;

at::Tensor sparse_alias(const at::Tensor& device, Crossing to_host);
at::Tensor sparse_from_host(const at::Tensor& host, c10::DeviceIndex index, Crossing to_device);

// Updates a device tensor after a CPU kernel has changed its alias.
void follow_sparse(const at::Tensor& device, const at::Tensor& host, Crossing to_device);

} // namespace chip
