// One call of the fallback: the alias of each argument, and the device tensor of each result.
#pragma once

#include "chip.h"
#include "operators/operator_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace chip {

class CallTranslation {
 public:
  CallTranslation(const c10::OperatorHandle& op, const OperatorFacts& facts)
      : op_(op), facts_(facts) {}

  // Replaces, on the stack, device tensors, devices and generators by the CPU's.
  void arguments_to_host(torch::jit::Stack& stack);
  // Replaces, on the stack, the CPU's results by the device's; arguments that were written follow.
  void results_to_device(torch::jit::Stack& stack);
  // Lets the written arguments follow their aliases, which a failed kernel may have resized.
  void follow_all();
  // The device of its arguments; the current device if no argument names one.
  c10::DeviceIndex index();
  // Makes a CPU tensor the device's, without a copy.
  at::Tensor to_device(at::Tensor host);

 private:
  struct Passed {
    at::Tensor device;
    at::Tensor host;
    uint16_t position;
    bool written;
  };

  at::Tensor to_host(const at::Tensor& tensor, const Argument& argument);
  at::Tensor dense_to_device(at::Tensor host);
  at::Tensor argument_at(int16_t position) const;
  void follow(const Passed& passed);
  void see_device(c10::Device device, const Argument& argument);

  const c10::OperatorHandle& op_;
  const OperatorFacts& facts_;
  c10::DeviceIndex index_ = -1;
  std::optional<Argument> on_cpu_; // an argument that must be on the device if any is
  c10::SmallVector<Passed, 6> passed_;
  c10::SmallVector<std::pair<c10::Storage, c10::Storage>, 2> adopted_; // host, device
};

} // namespace chip
