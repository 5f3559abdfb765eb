#include "operators/operation_limits.h"

#include "operators/operator_facts.h"

#include <c10/util/Exception.h>

namespace chip {
namespace {

std::map<std::string, OperationLimits> all_limits;

void check_dtype_of(const OperationLimits& limits, const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    const auto lacking = limits.dtypes.find(value.toTensor().scalar_type());
    TORCH_CHECK(lacking == limits.dtypes.end(), lacking->second);
  }
}

} // namespace

void configure_operations(std::map<std::string, OperationLimits> lacking) {
  all_limits = std::move(lacking);
}

const OperationLimits* limits_of(const c10::OperatorName& name) {
  if (all_limits.empty()) {
    return nullptr;
  }
  auto found = all_limits.find(c10::toString(name));
  if (found == all_limits.end()) {
    found = all_limits.find(name.name);
  }
  return found == all_limits.end() ? nullptr : &found->second;
}

void check_limits(
    const OperationLimits& limits, const OperatorFacts& facts, const torch::jit::Stack& stack) {
  TORCH_CHECK(limits.wholly.empty(), limits.wholly);
  const auto* arguments = stack.data() + stack.size() - facts.argument_count;
  for (const auto& argument : facts.arguments) {
    const auto& value = arguments[argument.position];
    if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) {
        check_dtype_of(limits, element);
      }
    } else {
      check_dtype_of(limits, value);
    }
  }
}

} // namespace chip
