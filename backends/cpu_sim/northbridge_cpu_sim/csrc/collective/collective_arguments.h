// Arguments for the library below: CPU tensors on the same memory, after checks of the chip's
// library. Reduced tensors are passed in a dtype that the library can reduce. Other tensors are
// passed as bytes if the library below does not know their dtype.
#pragma once

#include "collective/collective_call.h"
#include "collective/collective_limits.h"

#include <optional>
#include <string>

namespace chip {

class HostArguments {
 public:
  // Raises RuntimeError with the vendor's sentence if the library lacks the call, reduction or
  // dtype, and with ours if the library below lacks it.
  HostArguments(
      const CollectiveLimits& limits, const std::string& library, int size, const Call& call);

  HostTensors& tensors() {
    return tensors_;
  }
  // True if the results must be cast back after the call.
  bool is_converted() const {
    return is_converted_;
  }
  void cast_back() const;

  // True if a part of the reduction is done here after the library below: Gloo lacks the average,
  // which is its sum, divided.
  bool is_averaged() const {
    return is_averaged_;
  }
  void average() const;

  // True if the library below works on copies that are brought back later: if streams are deferred
  // and nothing is converted.
  bool is_staged() const {
    return is_staged_;
  }
  // Called after the library has the tensors, so that a rejected call changes nothing.
  void make_results_stale() const;
  // Writes only NaN if a tensor that the call reads was written meanwhile.
  void bring_back() const;
  // The device of the written tensors.
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
  const int size_; // the number of ranks
  const std::optional<double> factor_; // the tensors are multiplied by it before the sum
  HostTensors tensors_;
  std::vector<Copy> copies_; // of the written tensors
  std::vector<Copy> read_; // staged copies of tensors that are only read
  bool is_converted_ = false;
  bool is_averaged_ = false;
  bool is_staged_ = false;
  c10::DeviceIndex index_ = -1; // -1 before the first tensor
};

} // namespace chip
