// The layouts without kernels on the chip. Such a tensor can be moved to it, and back.
#include "chip.h"
#include "device/device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace chip {
namespace {

void refuse(const c10::OperatorHandle& op, const char* layout, const char* instead) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      op.operator_name(),
      " was called on ",
      type_name(),
      " with a ",
      layout,
      " tensor, but ",
      type_name(),
      " computes only with dense and sparse COO tensors. Fix: ",
      instead,
      ", or move it to the CPU first");
}

void refuse_compressed(
    const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  refuse(op, "sparse CSR, CSC, BSR or BSC", "call to_sparse_coo() or to_dense()");
}

void refuse_nested(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  refuse(op, "nested", "pad it by to_padded_tensor()");
}

void refuse_quantized(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  refuse(op, "quantized", "call dequantize()");
}

} // namespace

#define CHIP_COMPRESSED_KEY C10_CONCATENATE(SparseCsr, CHIP_KEY)
#define CHIP_NESTED_KEY C10_CONCATENATE(NestedTensor, CHIP_KEY)
#define CHIP_QUANTIZED_KEY C10_CONCATENATE(Quantized, CHIP_KEY)

TORCH_LIBRARY_IMPL(_, CHIP_COMPRESSED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
}

TORCH_LIBRARY_IMPL(_, CHIP_NESTED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

TORCH_LIBRARY_IMPL(_, CHIP_QUANTIZED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

} // namespace chip
