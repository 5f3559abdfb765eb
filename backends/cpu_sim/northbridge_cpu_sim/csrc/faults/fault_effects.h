// What each kind of planned fault does.
#pragma once

#include "faults/fault_plan.h"

#include <ATen/core/Tensor.h>

namespace chip {

// Lets a fault happen before `event`: returns after one that is slow, and for one that is lost.
void happen(const Fault& fault, const Event& event);

// Raises that the device of `event` was lost by `fault`.
[[noreturn]] void raise_lost(const Fault& fault, const Event& event);

// Whether a fault can change an element of the tensor.
bool can_be_corrupted(const at::Tensor& tensor);
void corrupt(const Fault& fault, const at::Tensor& tensor);

} // namespace chip
