// nn.GroupNorm of channels-last tensors. Torch keeps their layout only on the CPU. Elsewhere it
// makes the gradient contiguous for backward, and under some dispatch keys the input too, which
// adds in another order. Here the CPU's kernels get the same inputs as on the CPU.
#include "chip.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/group_norm_native.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/library.h>

#include <array>
#include <mutex>
#include <tuple>
#include <utility>

namespace chip {
namespace {

using at::Tensor;
using std::optional;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Compiled, mapped and forward-differentiated tensors use torch's own path.
bool is_plain_channels_last(const Tensor& input) {
  return input.dim() >= 4 && !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
      !at::isTensorSubclassLike(input) && !input._fw_grad(/*level=*/0).defined() &&
      input.suggest_memory_format() != c10::MemoryFormat::Contiguous;
}

// Torch's node for it, but with the input's layout kept.
struct KeepingLayout final : torch::autograd::generated::NativeGroupNormBackward0 {
  variable_list apply(variable_list&& grads) override {
    if (at::GradMode::is_enabled() || !grads[0].defined() || grads[1].defined() ||
        grads[2].defined()) {
      return NativeGroupNormBackward0::apply(std::move(grads)); // torch needs no layout there
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto input = input_.unpack();
    const auto format = input.suggest_memory_format();
    const std::array<bool, 3> wanted{
        task_should_compute_output(0), task_should_compute_output(1), task_should_compute_output(2)};
    const auto [of_input, of_weight, of_bias] = at::native_group_norm_backward_symint(
        grads[0].contiguous(format), input.contiguous(format), result1_.unpack(getptr()),
        result2_.unpack(getptr()), weight_.unpack(), N, C, HxW, group, wanted);
    return {of_input, of_weight, of_bias};
  }
};

// Builds the same graph as torch, except for that node.
void normalize(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto count = op.schema().arguments().size();
  const auto* given = stack->data() + stack->size() - count;
  const auto tensor = [given](int i) {
    return given[i].isTensor() ? given[i].toTensor() : Tensor();
  };
  const auto input = tensor(0), weight = tensor(1), bias = tensor(2);
  if (!torch::autograd::compute_requires_grad(input, weight, bias) ||
      !is_plain_channels_last(input)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
    return;
  }
  const auto node = c10::make_intrusive<KeepingLayout>();
  node->set_next_edges(torch::autograd::collect_next_edges(input, weight, bias));
  node->N = given[3].toInt();
  node->C = given[4].toInt();
  node->HxW = given[5].toInt();
  node->group = given[6].toInt();
  node->eps = given[7].toDouble();
  node->input_ = SavedVariable(input, /*is_output=*/false);
  node->weight_ = SavedVariable(weight, /*is_output=*/false);
  auto [output, mean, rstd] = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::native_group_norm_symint(
        input, weight, bias, node->N, node->C, node->HxW, node->group, node->eps);
  }();
  for (const auto& result : {output, mean, rstd}) {
    torch::autograd::set_history(result, node);
  }
  node->result1_ = SavedVariable(mean, /*is_output=*/true);
  node->result2_ = SavedVariable(rstd, /*is_output=*/true);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, output, mean, rstd);
}

// Like torch's own, which keeps the layout on the CPU, and among other keys only for PrivateUse1.
Tensor group_norm(
    const Tensor& input,
    int64_t groups,
    const optional<Tensor>& weight,
    const optional<Tensor>& bias,
    double eps,
    bool cudnn_enabled) {
  const auto fits = [&](const optional<Tensor>& x) {
    return !x || !x->defined() || (x->dim() == 1 && x->size(0) == input.size(1));
  };
  if (!is_plain_channels_last(input) || groups <= 0 || input.size(1) % groups != 0 ||
      !fits(weight) || !fits(bias)) {
    return at::native::group_norm(input, groups, weight, bias, eps, cudnn_enabled);
  }
  const auto contiguous = [](const optional<Tensor>& x) {
    return x && x->defined() ? x->contiguous() : Tensor();
  };
  const auto batch = input.size(0), channels = input.size(1);
  return std::get<0>(at::native_group_norm(
      input.contiguous(input.suggest_memory_format()), contiguous(weight), contiguous(bias),
      batch, channels, c10::multiply_integers(input.sizes().slice(2)), groups, eps));
}

constexpr bool kKeepsLayoutInTorch = kKey == c10::DispatchKey::PrivateUse1;

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  if (!kKeepsLayoutInTorch) {
    m.impl("group_norm", group_norm);
  }
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  m.impl("native_group_norm", torch::CppFunction::makeFromBoxedFunction<&normalize>());
  if (!kKeepsLayoutInTorch) {
    m.impl("group_norm", group_norm);
  }
}

} // namespace chip
