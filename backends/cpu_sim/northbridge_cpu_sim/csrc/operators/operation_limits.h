// Operations that the simulated chip lacks, wholly or for some dtypes, with the sentence that says so.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <map>
#include <string>

namespace chip {

struct OperatorFacts;

struct OperationLimits {
  std::string wholly; // the sentence, or empty where only some dtypes are lacking
  std::map<c10::ScalarType, std::string> dtypes;
};

// By the name that torch prints, with its overload ("aten::add.Tensor") or without, for all of
// them. Called before the fallbacks are registered.
void configure_operations(std::map<std::string, OperationLimits> lacking);

// What an operator lacks, or null.
const OperationLimits* limits_of(const c10::OperatorName& name);

// Raises RuntimeError with the sentence where the operator is lacking, or is for the dtype of one
// of its tensors.
void check_limits(
    const OperationLimits& limits, const OperatorFacts& facts, const torch::jit::Stack& stack);

} // namespace chip
