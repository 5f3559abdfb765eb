#include "kept_failure.h"

#include "alias.h"
#include "device.h"
#include "device_errors.h"
#include "stale.h"

#include <ATen/core/List.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <optional>
#include <vector>

namespace chip {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

constexpr c10::DispatchKeySet kMeta(c10::DispatchKey::Meta);

Tensor like(const Tensor& tensor, c10::Device device) {
  return at::empty_strided(
      tensor.sizes(), tensor.strides(), tensor.options().device(device).requires_grad(false));
}

IValue on_meta(const IValue& value, const Argument& argument) {
  if (argument.kind == Kind::device && value.isDevice()) {
    return c10::Device(c10::kMeta);
  }
  if (argument.kind == Kind::generator) {
    return {};
  }
  if (value.isTensor()) {
    return value.toTensor().defined() ? like(value.toTensor(), c10::kMeta) : value.toTensor();
  }
  if (argument.kind == Kind::tensors && value.isTensorList()) {
    c10::List<Tensor> all;
    for (const Tensor& tensor : value.toTensorList()) {
      all.push_back(like(tensor, c10::kMeta));
    }
    return all;
  }
  if (argument.kind == Kind::indices && value.isList()) {
    c10::List<std::optional<Tensor>> all;
    for (const IValue& element : value.toListRef()) {
      all.push_back(
          element.isTensor() ? std::optional(like(element.toTensor(), c10::kMeta)) : std::nullopt);
    }
    return all;
  }
  return value;
}

Tensor hollow(const Tensor& meta, c10::DeviceIndex index) {
  if (!meta.defined()) {
    return meta;
  }
  auto tensor = like(meta, {kDeviceType, index});
  make_stale(host_alias(tensor));
  return tensor;
}

// Puts results of the right shapes onto the stack, or says that shapes alone do not tell them.
bool give_hollow_results(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const std::vector<IValue>& arguments,
    Stack* stack) {
  Stack meta(arguments);
  for (const auto& argument : facts.arguments) {
    meta[argument.position] = on_meta(arguments[argument.position], argument);
  }
  try {
    op.redispatchBoxed(kMeta, &meta);
  } catch (const std::exception&) {
    return false; // the caller raises the failure itself
  }
  const auto index = device_of(facts, arguments.data());
  for (const auto& result : facts.results) {
    IValue& value = meta[result.position];
    if (result.kind == Kind::tensor && value.isTensor()) {
      value = result.same_as >= 0 ? arguments[result.same_as]
                                  : IValue(hollow(value.toTensor(), index));
    } else if (result.kind == Kind::tensors && value.isTensorList()) {
      c10::List<Tensor> all;
      for (const Tensor& tensor : value.toTensorList()) {
        all.push_back(hollow(tensor, index));
      }
      value = std::move(all);
    }
  }
  stack->insert(stack->end(), meta.begin(), meta.end());
  return true;
}

} // namespace

void run_keeping_failure(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    Stack* stack,
    const std::function<void()>& run) {
  const std::vector<IValue> arguments(
      stack->end() - static_cast<int64_t>(facts.argument_count), stack->end());
  const auto below = stack->size() - facts.argument_count;
  check_working(device_of(facts, arguments.data())); // here, because what it raises is not to be kept
  try {
    run();
    return;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::TypeError&) {
    throw;
  } catch (const c10::ValueError&) {
    throw;
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::LinAlgError&) {
    throw; // who solves asks the device whether it could, and waits for the answer
  } catch (const c10::Error& error) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    stack->resize(below);
    if (!give_hollow_results(op, facts, arguments, stack)) {
      throw;
    }
    keep_error(
        device_of(facts, arguments.data()),
        c10::str(op.operator_name(), ": ", error.what_without_backtrace()));
  }
}

} // namespace chip
