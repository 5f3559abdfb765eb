// The layouts without kernels on the chip. Such a tensor can be moved to it, and back.
#include "chip.h"
#include "device/device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/detach_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/unbind_native.h>
#include <ATen/ops/values_native.h>
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
  refuse(op, "nested", "pad it by to_padded_tensor() on the CPU");
}

void refuse_quantized(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  refuse(op, "quantized", "call dequantize()");
}

#define CHIP_COMPRESSED_KEY C10_CONCATENATE(SparseCsr, CHIP_KEY)
#define CHIP_NESTED_KEY C10_CONCATENATE(NestedTensor, CHIP_KEY)
#define CHIP_QUANTIZED_KEY C10_CONCATENATE(Quantized, CHIP_KEY)

// Of some keys torch has these kernels itself, and warns of another one.
template <typename Kernel>
void add_if_missing(torch::Library& m, const char* name, const char* overload, Kernel* kernel) {
  const auto op = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, overload});
  if (op.has_value() && !op->hasKernelForDispatchKey(c10::DispatchKey::CHIP_NESTED_KEY)) {
    m.impl(*overload ? (std::string(name) + "." + overload).c_str() : name, kernel);
  }
}

} // namespace

TORCH_LIBRARY_IMPL(_, CHIP_COMPRESSED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
}

TORCH_LIBRARY_IMPL(aten, CHIP_COMPRESSED_KEY, m) {
  // The parts of such a tensor are dense. Torch's default for other devices denies the layout.
  m.impl("_nnz", at::native::_nnz_sparse_csr);
  m.impl("ccol_indices", at::native::ccol_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("row_indices", at::native::row_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
}

TORCH_LIBRARY_IMPL(_, CHIP_NESTED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

TORCH_LIBRARY_IMPL(aten, CHIP_NESTED_KEY, m) {
  // Torch's own, correct for any device: they copy the memory, or view it.
  add_if_missing(m, "_to_copy", "", &at::native::_to_copy_nested);
  add_if_missing(m, "copy_", "", &at::native::copy_nested_);
  add_if_missing(m, "detach", "", &at::native::detach);
  add_if_missing(m, "empty_like", "", &at::native::empty_like_nested);
  add_if_missing(m, "unbind", "int", &at::native::NestedTensor_unbind);
  add_if_missing(m, "values", "", &at::native::values_nested);
}

TORCH_LIBRARY_IMPL(_, CHIP_QUANTIZED_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

} // namespace chip
