// Large products of float16 are computed in float32 and rounded once. Torch's own kernels for them
// are made for CPUs with float16 instructions, and take up to 150 times as long on others.
#pragma once

#include "operators/operator_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace chip {

// Whether an operator multiplies matrices, so that its float16 calls may be computed in float32.
bool is_product(const c10::OperatorName& name);

// Whether the call on the stack is one of large float16 tensors. Small ones stay the CPU's to the
// bit.
bool is_large_in_half(const OperatorFacts& facts, const torch::jit::Stack& stack);

// Computes the call on the stack, whose tensors are the CPU's, in float32, and rounds what it gives.
void multiply_in_float(
    const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack);

} // namespace chip
