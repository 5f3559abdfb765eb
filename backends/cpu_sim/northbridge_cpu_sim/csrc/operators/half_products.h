// Large products of float16 are computed in float32 and rounded once. Torch's own kernels for them
// need CPUs with float16 instructions, and take up to 150 times as long on others.
#pragma once

#include "operators/operator_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace chip {

// True if an operator multiplies matrices, so that its float16 calls may be computed in float32.
bool is_product(const c10::OperatorName& name);

// True if the call on the stack has large float16 tensors. Small ones give exactly the CPU's
// results.
bool is_large_in_half(const OperatorFacts& facts, const torch::jit::Stack& stack);

// Computes the call on the stack, which has CPU tensors, in float32, and rounds its results.
void multiply_in_float(
    const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack);

} // namespace chip
