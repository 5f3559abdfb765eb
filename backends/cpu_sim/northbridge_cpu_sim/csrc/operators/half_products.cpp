#include "operators/half_products.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace chip {
namespace {

constexpr int64_t kLarge = 1 << 14; // elements: one matrix of 128×128

void convert(c10::IValue& value, c10::ScalarType from, c10::ScalarType to) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == from) {
    value = value.toTensor().to(to);
  }
}

} // namespace

bool is_product(const c10::OperatorName& name) {
  constexpr std::string_view products[] = {
      "aten::addmm",
      "aten::baddbmm",
      "aten::bmm",
      "aten::convolution",
      "aten::convolution_backward",
      "aten::mm"};
  return name.overload_name.empty() &&
      std::find(std::begin(products), std::end(products), name.name) != std::end(products);
}

bool is_large_in_half(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  bool large = false;
  for (auto value = stack.end() - facts.argument_count; value != stack.end(); ++value) {
    if (!value->isTensor() || !value->toTensor().defined()) {
      continue;
    }
    const auto& tensor = value->toTensor();
    if (tensor.scalar_type() != c10::ScalarType::Half) {
      return false; // mixed dtypes: the kernel raises its own error
    }
    large = large || tensor.numel() >= kLarge;
  }
  return large;
}

void multiply_in_float(
    const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack) {
  for (auto value = stack->end() - facts.argument_count; value != stack->end(); ++value) {
    convert(*value, c10::ScalarType::Half, c10::ScalarType::Float);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (auto value = stack->end() - facts.result_count; value != stack->end(); ++value) {
    convert(*value, c10::ScalarType::Float, c10::ScalarType::Half);
  }
}

} // namespace chip
