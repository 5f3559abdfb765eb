// An operation that fails on the device after the host has continued, as on real chips: the device
// keeps the error for the next synchronization, and the operation returns results of the right
// shape without content.
#pragma once

#include "operators/operator_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace chip {

// Runs the CPU's kernel of an operator by `run`, with the CPU's arguments on the stack; `arguments`
// are the device's. An error about types or shapes is raised at once, as on real chips. Other
// errors are kept for device `index`: then the stack holds the device's results, and the function
// returns false.
bool run_keeping_failure(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const torch::jit::Stack& arguments,
    c10::DeviceIndex index,
    torch::jit::Stack* stack,
    const std::function<void()>& run);

} // namespace chip
