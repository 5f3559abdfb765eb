// What the library below is handed for the tensors of a call: the same memory as the CPU's, after a
// look at what the chip's library lacks. What is reduced is handed over in a dtype that the library
// can reduce; what only moves, and is of a dtype that the library below does not know, as bytes.
#pragma once

#include "collective/collective_call.h"
#include "collective/collective_limits.h"

#include <optional>
#include <string>

namespace chip {

class HostArguments {
 public:
  // Raises RuntimeError with the vendor's sentence where the library has no such call, reduction or
  // dtype, and with ours where nothing below has it.
  HostArguments(
      const CollectiveLimits& limits, const std::string& library, int size, const Call& call);

  HostTensors& tensors() {
    return tensors_;
  }
  // Whether what was written has to be cast back once the call is done.
  bool is_converted() const {
    return is_converted_;
  }
  void cast_back() const;

  // Whether a part of the reduction is left to do here, when the library below is done: Gloo has no
  // average, which is its sum, divided.
  bool is_averaged() const {
    return is_averaged_;
  }
  void average() const;

  // Whether the library below works on copies, which are to be brought back later: where streams
  // are deferred, and nothing is converted.
  bool is_staged() const {
    return is_staged_;
  }
  // Once the library has them, so that a call that is refused changes nothing.
  void make_results_stale() const;
  // Nothing but NaN, where a tensor that the call reads was written meanwhile.
  void bring_back() const;
  // The device of the tensors that are written.
  c10::DeviceIndex index() const {
    return index_;
  }

 private:
  void check(
      const at::Tensor& tensor, const std::string& library, const Call& call, bool is_written);
  at::Tensor handed(at::Tensor tensor, const Call& call, bool is_read, bool is_written);
  bool was_read_tensor_written() const;

  struct Copy {
    at::Tensor alias;
    at::Tensor host;
  };

  const CollectiveLimits& limits_;
  const int size_; // how many ranks
  const std::optional<double> factor_; // that the tensors are multiplied by before they are summed
  HostTensors tensors_;
  std::vector<Copy> copies_; // of what is written
  std::vector<Copy> read_; // staged copies of what is read alone
  bool is_converted_ = false;
  bool is_averaged_ = false;
  bool is_staged_ = false;
  c10::DeviceIndex index_ = -1; // none before the first tensor
};

} // namespace chip
