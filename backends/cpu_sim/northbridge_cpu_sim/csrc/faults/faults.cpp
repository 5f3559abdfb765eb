#include "faults/faults.h"

#include "device/device.h"
#include "faults/fault_effects.h"
#include "memory/alias.h"

#include <mutex>

namespace chip {
namespace {

using at::Tensor;
using c10::IValue;

// The first that `fits`, in a value or its lists; undefined if none does.
template <typename Fits>
Tensor first_tensor(const IValue& value, const Fits& fits) {
  Tensor found;
  value.visit([&](const IValue& inner) {
    if (!found.defined() && inner.isTensor() && fits(inner.toTensor())) {
      found = inner.toTensor();
    }
    return found.defined();
  });
  return found;
}

bool is_on_chip(const Tensor& tensor) {
  return tensor.defined() && on_chip(tensor);
}

void raise_if_lost(const Event& event) {
  if (const auto fault = loss_of(event.device)) {
    raise_lost(*fault, event);
  }
}

void change(const Event& event, const Tensor& result) {
  if (!can_be_corrupted(result)) {
    return;
  }
  for (const auto& fault : meet(event, /*results=*/true)) {
    corrupt(*fault, result);
  }
}

} // namespace

void let_faults_happen(const Event& event) {
  raise_if_lost(event);
  for (const auto& fault : meet(event, /*results=*/false)) {
    happen(*fault, event);
  }
  raise_if_lost(event);
}

void let_faults_happen(const char* name, const Tensor& written, const Tensor& read) {
  const auto& first = is_on_chip(written) ? written : read;
  let_faults_happen({Event::Place::operation, name, first.device().index()});
  if (is_on_chip(read)) {
    raise_if_lost({Event::Place::operation, name, read.device().index()});
  }
}

void corrupt_result(const char* name, const Tensor& result, c10::DeviceIndex device) {
  change({Event::Place::operation, name, device}, result);
}

void OperationFaults::begin(
    const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const auto* arguments = stack.data() + stack.size() - facts.argument_count;
  device_ = device_of(facts, arguments);
  for (const auto& argument : facts.arguments) {
    if (argument.written && !written_.defined()) {
      written_ = first_tensor(arguments[argument.position], can_be_corrupted);
    }
  }
  let_faults_happen({Event::Place::operation, op.operator_name().name, device_});
}

void OperationFaults::end(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const torch::jit::Stack& stack) const {
  Tensor result;
  for (auto i = stack.size() - facts.result_count; i < stack.size() && !result.defined(); ++i) {
    result = first_tensor(stack[i], can_be_corrupted);
  }
  change(
      {Event::Place::operation, op.operator_name().name, device_},
      result.defined() ? result : written_);
}

struct CollectiveFaults::Corruptions {
  std::once_flag once;
  std::vector<FaultPtr> faults;
  Tensor result;
};

CollectiveFaults::CollectiveFaults(const char* call, int64_t sequence, const IValue& tensors) {
  if (!faults_are_planned()) {
    return;
  }
  const auto on_chip = first_tensor(tensors, is_on_chip); // a barrier has no tensor
  const auto device = on_chip.defined() ? on_chip.device().index() : current_device();
  const Event event{Event::Place::collective, call, device, sequence};
  let_faults_happen(event);
  auto result = first_tensor(tensors, can_be_corrupted);
  if (result.defined()) {
    if (auto faults = meet(event, /*results=*/true); !faults.empty()) {
      corruptions_ = std::make_shared<Corruptions>();
      corruptions_->faults = std::move(faults);
      corruptions_->result = std::move(result);
    }
  }
}

void CollectiveFaults::meet_results() const {
  if (corruptions_) {
    std::call_once(corruptions_->once, [this] {
      for (const auto& fault : corruptions_->faults) {
        corrupt(*fault, corruptions_->result);
      }
    });
  }
}

} // namespace chip
