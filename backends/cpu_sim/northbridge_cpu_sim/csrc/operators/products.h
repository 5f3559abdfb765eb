// Products of matrices, convolutions and sums, in the arithmetic that the settings choose; and of a
// tensor, a mask and a number, which dropout is, in one pass over the memory.
//
// Large products of float16 are computed in float32 and rounded once, whatever they choose: torch's
// own kernels for them need CPUs with float16 instructions, and take up to 150 times as long on
// others.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace chip {

struct OperatorFacts;

enum class Product : uint8_t {
  none,
  mm,
  bmm,
  addmm,
  baddbmm,
  convolution,
  convolution_backward,
  masked, // native_dropout_backward
  sum // or a mean
};

Product product_of(const c10::OperatorName& name);

// Computes the call on the stack, which has CPU tensors.
void multiply(
    const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack);

} // namespace chip
