// The parts that a communication library lacks, with its vendor's sentences, and the dtypes that it
// converts.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chip {

// "sum", "avg" and so on.
const char* name_of(const c10d::ReduceOp& reduction);

struct CollectiveLimits {
  using Sentences = std::map<std::string, std::string>;
  static constexpr const char* kEveryCall = "";
  using DtypeSentences = std::map<c10::ScalarType, std::string>;

  Sentences lacking_reductions; // by "sum", "avg" and so on
  Sentences lacking_calls;
  std::map<std::string, DtypeSentences> lacking_dtypes; // by call, or for every call
  std::vector<c10::ScalarType> natively; // reduced without conversion; empty if all are
  std::optional<c10::ScalarType> through; // the dtype for all others

  // Each raises RuntimeError with the sentence.
  void check_call(const char* call) const;
  void check_dtype(const char* call, c10::ScalarType dtype) const;
  void check_reduction(const c10d::ReduceOp& reduction) const;

  // The dtype in which tensors of this dtype are reduced: the same, or another.
  c10::ScalarType reduced_as(c10::ScalarType dtype) const;
};

} // namespace chip
