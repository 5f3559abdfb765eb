// An operation that fails on the device when the host has long gone on, as real chips do it: the
// device keeps the error for the next synchronisation, and the operation gives results of the right
// shape that hold nothing.
#pragma once

#include "operators/operator_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace chip {

// Runs the CPU's kernel of an operator by `run`, with the CPU's arguments on the stack; `arguments`
// are the device's. What it raises is raised at once where types or shapes alone are wrong, as on
// real chips, and else kept for device `index`: then the stack holds the device's results, and the
// answer is false.
bool run_keeping_failure(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const torch::jit::Stack& arguments,
    c10::DeviceIndex index,
    torch::jit::Stack* stack,
    const std::function<void()>& run);

} // namespace chip
