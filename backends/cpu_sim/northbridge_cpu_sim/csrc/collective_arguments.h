// What the library below is handed for the tensors of a call: the same memory as the CPU's, after a
// look at what the chip's library lacks. What is reduced is handed over in a dtype that the library
// can reduce; what only moves, and is of a dtype that the library below does not know, as bytes.
#pragma once

#include "collective_call.h"
#include "collective_limits.h"

#include <string>

namespace chip {

class HostArguments {
 public:
  // Raises RuntimeError with the vendor's sentence where the library has no such call, reduction or
  // dtype, and with ours where nothing below has it.
  HostArguments(const CollectiveLimits& limits, const std::string& library, int size, const Call& call);

  HostTensors& tensors() {
    return tensors_;
  }
  // Whether what was written has to be cast back once the call is done.
  bool is_converted() const {
    return !copies_.empty();
  }
  void cast_back() const;

 private:
  at::Tensor handed(const at::Tensor& tensor, const Call& call, bool is_written);

  struct Copy {
    at::Tensor alias;
    at::Tensor converted;
  };

  const CollectiveLimits& limits_;
  HostTensors tensors_;
  std::vector<Copy> copies_;
};

} // namespace chip
