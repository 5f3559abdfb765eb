// Automatic mixed precision: torch's own lists of operators, as on CUDA.
#include "chip.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/norm.h>
#include <torch/library.h>

namespace chip {
namespace {

// The names in the signatures of torch's lists.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor binary_cross_entropy_banned(
    const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: the "
      "logarithm of a rounded probability overflows; use binary_cross_entropy_with_logits or "
      "torch.nn.BCEWithLogitsLoss, which are safe");
}

} // namespace

TORCH_LIBRARY_IMPL(_, CHIP_AUTOCAST_KEY, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOCAST_KEY, m) {
#define CHIP_AUTOCAST(...) KERNEL(kDeviceType, __VA_ARGS__)
#define CHIP_LOWER_PRECISION(...) CHIP_AUTOCAST(__VA_ARGS__, lower_precision_fp)
#define CHIP_FP32(...) CHIP_AUTOCAST(__VA_ARGS__, fp32)
#define CHIP_FP32_SET_OPT_DTYPE(...) CHIP_AUTOCAST(__VA_ARGS__, fp32_set_opt_dtype)
#define CHIP_PROMOTE(...) CHIP_AUTOCAST(__VA_ARGS__, promote)
#define CHIP_APPEND_DTYPE(...) KERNEL_DIFFERENT_REDISPATCH_SIGNATURE(kDeviceType, __VA_ARGS__)

  AT_FORALL_LOWER_PRECISION_FP(CHIP_LOWER_PRECISION)
  AT_FORALL_FP32(CHIP_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(CHIP_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(CHIP_APPEND_DTYPE)
  AT_FORALL_PROMOTE(CHIP_PROMOTE)
  m.impl("binary_cross_entropy", binary_cross_entropy_banned);
}

} // namespace chip
