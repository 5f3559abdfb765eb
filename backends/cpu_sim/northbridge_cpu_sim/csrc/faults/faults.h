// Faults on purpose: the one line that stands where something reaches the chip. While nothing is
// planned it costs a relaxed load.
#pragma once

#include "faults/fault_plan.h"
#include "operators/operator_facts.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace chip {

// Raises where the event's device was lost; else lets happen what was planned for it. The GIL may
// be held or not; no lock may be held.
void let_faults_happen(const Event& event);
void let_faults_happen(const char* name, const at::Tensor& written, const at::Tensor& read);
void corrupt_result(const char* name, const at::Tensor& result, c10::DeviceIndex device);

// Before a kernel of the chip's own, or a wait: `name` is "aten::copy_", or "synchronize".
inline void meet_faults(const char* name, c10::DeviceIndex device) {
  if (faults_are_planned()) {
    let_faults_happen({Event::Place::operation, name, device});
  }
}

// Before memory is taken.
inline void meet_faults_of_allocation(c10::DeviceIndex device) {
  if (faults_are_planned()) {
    let_faults_happen({Event::Place::allocation, "an allocation", device});
  }
}

// The same for what reads one tensor and writes another, of which either may be on the chip.
inline void meet_faults(const char* name, const at::Tensor& written, const at::Tensor& read) {
  if (faults_are_planned()) {
    let_faults_happen(name, written, read);
  }
}

// Once a kernel of the chip's own has ended on a device: changes its result as planned.
inline void corrupt_as_planned(
    const char* name, const at::Tensor& result, c10::DeviceIndex device) {
  if (faults_are_planned()) {
    corrupt_result(name, result, device);
  }
}

// An operation that the fallback runs: made before, asked for the results after.
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

  at::Tensor written_; // an argument: what a call without results changes
  c10::DeviceIndex device_ = -1;
};

// One call of the collective library: made before it is handed on, and asked to change the results
// once they are there.
class CollectiveFaults {
 public:
  CollectiveFaults() = default;
  // `tensors` holds the tensors that the call writes, in whatever lists.
  CollectiveFaults(const char* call, int64_t sequence, const c10::IValue& tensors);

  // Does so the first time; needs no GIL.
  void meet_results() const;

 private:
  struct Corruptions;
  std::shared_ptr<Corruptions> corruptions_;
};

} // namespace chip
