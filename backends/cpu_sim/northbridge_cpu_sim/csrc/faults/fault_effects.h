// The effect of each kind of planned fault.
#pragma once

#include "faults/fault_plan.h"

#include <ATen/core/Tensor.h>

namespace chip {

// Lets a fault happen before `event`: returns after a slow fault, and for a lost device.
void happen(const Fault& fault, const Event& event);

// Raises the error that `fault` lost the device of `event`.
[[noreturn]] void raise_lost(const Fault& fault, const Event& event);

// True if a fault can change an element of the tensor.
bool can_be_corrupted(const at::Tensor& tensor);
void corrupt(const Fault& fault, const at::Tensor& tensor);

} // namespace chip
