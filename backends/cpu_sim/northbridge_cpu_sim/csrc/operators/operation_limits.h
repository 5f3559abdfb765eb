// Operations that the simulated chip lacks, wholly or for some dtypes, with the sentence of the
// error.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <map>
#include <string>

namespace chip {

struct OperatorFacts;

struct OperationLimits {
  std::string wholly; // the sentence; empty if only some dtypes are lacking
  std::map<c10::ScalarType, std::string> dtypes;
};

// By torch's name, with its overload ("aten::add.Tensor"), or without it for all overloads. Called
// before the fallbacks are registered.
void configure_operations(std::map<std::string, OperationLimits> lacking);

// The missing parts of an operator, or null.
const OperationLimits* limits_of(const c10::OperatorName& name);

// Raises RuntimeError with the sentence if the operator is lacking, wholly or for the dtype of one
// of its tensors.
void check_limits(
    const OperationLimits& limits, const OperatorFacts& facts, const torch::jit::Stack& stack);

} // namespace chip
