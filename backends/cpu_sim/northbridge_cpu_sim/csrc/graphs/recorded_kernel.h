// A kernel's call with its arguments and results, in a form that can be run again on their memory.
#pragma once

#include "operators/operator_facts.h"

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chip {

class RecordedKernel {
 public:
  using Kernel =
      std::function<void(const c10::OperatorHandle&, const OperatorFacts&, torch::jit::Stack*)>;

  // `arguments` and `results` are the device's, after the call.
  RecordedKernel(
      const c10::OperatorHandle& op,
      const OperatorFacts& facts,
      c10::DeviceIndex index,
      Kernel kernel,
      const torch::jit::Stack& arguments,
      const torch::jit::Stack& results);

  // Runs the kernel on the same memory. Its results replace the earlier ones there.
  void operator()() const;

 private:
  struct Kept { // a result, in the CPU's terms
    uint16_t position;
    std::vector<at::Tensor> tensors;
  };

  void put_back(const at::Tensor& again, const at::Tensor& kept) const;

  c10::OperatorHandle op_;
  std::shared_ptr<const OperatorFacts> facts_;
  c10::DeviceIndex index_;
  Kernel kernel_;
  bool with_gradients_; // torch's products choose kernels by it, which round differently
  torch::jit::Stack arguments_; // the CPU's aliases, which own their memory
  int generator_at_ = -1;
  at::Generator generator_; // the device's
  std::vector<at::Tensor> narrowed_; // arguments that are written, and held as a narrower dtype
  std::vector<Kept> results_;
};

} // namespace chip
