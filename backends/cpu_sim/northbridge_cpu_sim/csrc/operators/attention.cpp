// Scaled dot-product attention uses the CPU's choice of a kernel, so that its results equal the
// CPU's exactly.
#include "memory/alias.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

namespace chip {
namespace {

// The CPU's choice depends on which tensors need a gradient: its fused kernel has none for masks.
at::Tensor alias_for_choice(const at::Tensor& tensor) {
  if (on_chip(tensor) && tensor.requires_grad() && !c10::InferenceMode::is_enabled()) {
    return owning_host_alias(tensor).set_requires_grad(true);
  }
  return alias_if_on_chip(tensor);
}

int64_t choose_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  // torch.export passes a tensor with the chip's key but no data; this is torch's answer for meta.
  if (!on_chip(query)) {
    return static_cast<int64_t>(sdp::SDPBackend::math);
  }
  const auto host_mask = mask ? std::optional(alias_for_choice(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(
      alias_for_choice(query),
      alias_for_choice(key),
      alias_for_choice(value),
      host_mask,
      dropout,
      is_causal,
      scale,
      enable_gqa);
}

#ifndef CHIP_REGISTER_DISPATCH
// Torch asks for a choice only where its kernel tables have the key, so this asks in its place.
at::Tensor attend(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const auto choice =
      choose_attention(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
  if (choice != static_cast<int64_t>(sdp::SDPBackend::flash_attention)) {
    return at::native::scaled_dot_product_attention(
        query, key, value, mask, dropout, is_causal, scale, enable_gqa);
  }
  auto added = mask;
  if (mask && mask->scalar_type() == at::kBool) {
    added = at::zeros_like(*mask, query.options().requires_grad(false))
                .masked_fill(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, is_causal, added, scale));
}
#endif

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("_fused_sdp_choice", choose_attention);
#ifndef CHIP_REGISTER_DISPATCH
  m.impl("scaled_dot_product_attention", attend);
#endif
}

#ifndef CHIP_REGISTER_DISPATCH
TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  m.impl("scaled_dot_product_attention", attend);
}
#endif

} // namespace chip

#ifdef CHIP_REGISTER_DISPATCH
namespace at::native {
CHIP_REGISTER_DISPATCH(_fused_sdp_choice_stub, &chip::choose_attention)
} // namespace at::native
#endif
