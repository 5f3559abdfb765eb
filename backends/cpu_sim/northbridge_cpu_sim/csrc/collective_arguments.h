// What a library is handed for the tensors of a call: the same memory as the CPU's, after a look at
// what the library lacks; and for a call that reduces, in dtypes that it can reduce.
#pragma once

#include "collective_limits.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace chip {

// Raises RuntimeError with the vendor's sentence where the library has no such call, or not for
// these tensors.
at::Tensor host_argument(
    const CollectiveLimits& limits, const char* call, const at::Tensor& tensor);

template <typename Element> // a tensor, or a list of them
std::vector<Element> host_argument(
    const CollectiveLimits& limits, const char* call, const std::vector<Element>& elements) {
  std::vector<Element> arguments;
  arguments.reserve(elements.size());
  for (const auto& element : elements) {
    arguments.push_back(host_argument(limits, call, element));
  }
  return arguments;
}

// The tensors of a call that reduces: aliases, or copies in the dtype that they are converted to.
class Reducible {
 public:
  // Raises as `host_argument` does; of dtypes, the library sees those that it is handed.
  Reducible(
      const CollectiveLimits& limits,
      const char* call,
      const c10d::ReduceOp& reduction,
      const std::vector<at::Tensor>& tensors);

  std::vector<at::Tensor>& tensors() {
    return handed_;
  }
  bool is_converted() const {
    return is_converted_;
  }
  // Casts what the library has written back into the tensors.
  void cast_back() const;

 private:
  std::vector<at::Tensor> aliases_;
  std::vector<at::Tensor> handed_;
  bool is_converted_ = false;
};

} // namespace chip
