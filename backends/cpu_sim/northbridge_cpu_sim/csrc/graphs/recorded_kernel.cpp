#include "graphs/recorded_kernel.h"

#include "device/dtypes.h"
#include "device/generator.h"
#include "memory/alias.h"
#include "profiling/activity.h"

#include <ATen/core/List.h>
#include <ATen/ops/copy_native.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <unordered_map>
#include <utility>

namespace chip {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

// The aliases of one call: a tensor that it gets twice has one alias, as in the call itself.
class Aliases {
 public:
  Tensor of(const Tensor& tensor) {
    if (!tensor.defined()) {
      return tensor;
    }
    if (!on_chip(tensor)) {
      // A number on the CPU is read when the kernel is launched, so that a graph holds its value.
      auto frozen = tensor.clone();
      frozen.unsafeGetTensorImpl()->set_wrapped_number(
          tensor.unsafeGetTensorImpl()->is_wrapped_number());
      return frozen;
    }
    auto& alias = aliases_[tensor.unsafeGetTensorImpl()];
    if (!alias.defined()) {
      alias = recorded_host_alias(tensor);
    }
    return alias;
  }

 private:
  std::unordered_map<const c10::TensorImpl*, Tensor> aliases_;
};

template <typename Element>
IValue translated(const IValue& list, Aliases& aliases) {
  c10::List<Element> elements;
  elements.reserve(list.toListRef().size());
  for (const IValue& element : list.toListRef()) {
    elements.push_back(element.isTensor() ? Element(aliases.of(element.toTensor())) : Element());
  }
  return elements;
}

} // namespace

RecordedKernel::RecordedKernel(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    c10::DeviceIndex index,
    Kernel kernel,
    const Stack& arguments,
    const Stack& results)
    : op_(op),
      facts_(std::make_shared<const OperatorFacts>(facts)),
      index_(index),
      kernel_(std::move(kernel)),
      with_gradients_(c10::GradMode::is_enabled()),
      arguments_(arguments) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  Aliases aliases;
  const auto is_narrowed = [](const Tensor& tensor) {
    return tensor.defined() && is_held_narrower(tensor.scalar_type());
  };
  for (const auto& argument : facts_->arguments) {
    IValue& value = arguments_[argument.position];
    if (argument.kind == Kind::tensor && value.isTensor()) {
      value = aliases.of(value.toTensor());
      if (argument.written && is_narrowed(value.toTensor())) {
        narrowed_.push_back(value.toTensor());
      }
    } else if (argument.kind == Kind::tensors && value.isTensorList()) {
      value = translated<Tensor>(value, aliases);
      for (const IValue& element : value.toListRef()) {
        if (argument.written && is_narrowed(element.toTensor())) {
          narrowed_.push_back(element.toTensor());
        }
      }
    } else if (argument.kind == Kind::indices && value.isList()) {
      value = translated<std::optional<Tensor>>(value, aliases);
    } else if (argument.kind == Kind::device) {
      value = c10::Device(c10::kCPU);
    } else if (argument.kind == Kind::generator) {
      generator_at_ = argument.position;
      generator_ = value.isGenerator() ? value.toGenerator() : default_generator(index);
    }
  }
  for (const auto& result : facts_->results) {
    const IValue& value = results[result.position];
    if (result.kind == Kind::tensor && result.same_as < 0 && value.isTensor() &&
        value.toTensor().defined()) {
      results_.push_back({result.position, {aliases.of(value.toTensor())}});
    } else if (result.kind == Kind::tensors && value.isTensorList()) {
      Kept kept{result.position, {}};
      for (const IValue& element : value.toListRef()) {
        kept.tensors.push_back(aliases.of(element.toTensor()));
      }
      results_.push_back(std::move(kept));
    }
  }
}

void RecordedKernel::put_back(const Tensor& again, const Tensor& kept) const {
  TORCH_CHECK(
      again.defined() == kept.defined() && (!kept.defined() || again.sizes() == kept.sizes()),
      op_.operator_name(),
      " gave another shape in a replay than while its graph was captured");
  if (!kept.defined() || again.const_data_ptr() == kept.const_data_ptr()) {
    return; // a view of an argument
  }
  if (again.strides() == kept.strides() && kept.is_non_overlapping_and_dense()) {
    std::memcpy(kept.mutable_data_ptr(), again.const_data_ptr(), kept.nbytes());
  } else {
    const c10::impl::ExcludeDispatchKeyGuard guard(
        c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    auto to = kept;
    at::native::copy_(to, again, /*non_blocking=*/false);
  }
  if (is_held_narrower(kept.scalar_type())) {
    narrow(kept);
  }
}

void RecordedKernel::operator()() const {
  Stack stack = arguments_;
  if (generator_at_ >= 0) {
    stack[generator_at_] = engine(generator_);
  }
  const Activity activity;
  {
    const c10::AutoGradMode mode(with_gradients_);
    kernel_(op_, *facts_, &stack);
  }
  activity.end(op_.operator_name().name, op_.operator_name().overload_name, index_);
  for (const auto& tensor : narrowed_) {
    narrow(tensor);
  }
  const auto* results = stack.data() + stack.size() - facts_->result_count;
  for (const auto& kept : results_) {
    const IValue& value = results[kept.position];
    if (value.isTensor()) {
      put_back(value.toTensor(), kept.tensors[0]);
      continue;
    }
    size_t place = 0;
    for (const IValue& element : value.toListRef()) {
      put_back(element.toTensor(), kept.tensors.at(place++));
    }
  }
}

} // namespace chip
