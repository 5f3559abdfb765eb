// Faults on purpose: one line at each point that reaches the chip. Without a plan it costs a
// relaxed load.
#pragma once

#include "faults/fault_plan.h"
#include "operators/operator_facts.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace chip {

// Raises if the event's device was lost; otherwise lets the planned faults happen. The GIL may be
// held or not; no lock may be held.
void let_faults_happen(const Event& event);
void let_faults_happen(const char* name, const at::Tensor& written, const at::Tensor& read);
void corrupt_result(const char* name, const at::Tensor& result, c10::DeviceIndex device);

// Before a kernel of the chip's own, or a wait: `name` is "aten::copy_" or "synchronize".
inline void meet_faults(const char* name, c10::DeviceIndex device) {
  if (faults_are_planned()) {
    let_faults_happen({Event::Place::operation, name, device});
  }
}

// Before an allocation.
inline void meet_faults_of_allocation(c10::DeviceIndex device) {
  if (faults_are_planned()) {
    let_faults_happen({Event::Place::allocation, "an allocation", device});
  }
}

// The same for an operation that reads one tensor and writes another; either may be on the chip.
inline void meet_faults(const char* name, const at::Tensor& written, const at::Tensor& read) {
  if (faults_are_planned()) {
    let_faults_happen(name, written, read);
  }
}

// After a kernel of the chip's own has ended on a device: changes its result as planned.
inline void corrupt_as_planned(
    const char* name, const at::Tensor& result, c10::DeviceIndex device) {
  if (faults_are_planned()) {
    corrupt_result(name, result, device);
  }
}

// An operation of the fallback: constructed before it, and called with the results after it.
class OperationFaults {
 public:
  OperationFaults(
      const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack) {
    if (faults_are_planned()) {
      begin(op, facts, stack);
    }
  }
  void meet_results(
      const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack) {
    if (faults_are_planned()) {
      end(op, facts, stack);
    }
  }

 private:
  void begin(const c10::OperatorHandle&, const OperatorFacts&, const torch::jit::Stack&);
  void end(const c10::OperatorHandle&, const OperatorFacts&, const torch::jit::Stack&) const;

  at::Tensor written_; // an argument: the one that a call without results changes
  c10::DeviceIndex device_ = -1;
};

// One call of the collective library: constructed before it is passed on, and called to change the
// results when they exist.
class CollectiveFaults {
 public:
  CollectiveFaults() = default;
  // `tensors` holds the tensors that the call writes, in any lists.
  CollectiveFaults(const char* call, int64_t sequence, const c10::IValue& tensors);

  // Changes them at the first call; does not need the GIL.
  void meet_results() const;

 private:
  struct Corruptions;
  std::shared_ptr<Corruptions> corruptions_;
};

} // namespace chip
