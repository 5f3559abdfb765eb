// Scaled dot-product attention takes the kernel that the CPU would take, so that it is the CPU's to
// the bit.
#include "alias.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>

namespace chip {
namespace {

int64_t choose_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const auto host_mask = mask ? std::optional(alias_if_on_chip(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(
      alias_if_on_chip(query),
      alias_if_on_chip(key),
      alias_if_on_chip(value),
      host_mask,
      dropout,
      is_causal,
      scale,
      enable_gqa);
}

} // namespace
} // namespace chip

namespace at::native {
CHIP_REGISTER_DISPATCH(_fused_sdp_choice_stub, &chip::choose_attention)
} // namespace at::native
