#include "operators/kept_failure.h"

#include "device/device.h"
#include "device/device_errors.h"
#include "memory/alias.h"
#include "memory/stale.h"

#include <ATen/core/List.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
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

// True if a call's written tensor overlaps itself, or partly another argument: this error is
// visible without data.
bool overlaps(const OperatorFacts& facts, const Stack& arguments) {
  std::vector<Tensor> all;
  std::vector<Tensor> written;
  for (const auto& argument : facts.arguments) {
    arguments[argument.position].visit([&](const IValue& inner) {
      if (inner.isTensor() && inner.toTensor().defined() && inner.toTensor().has_storage()) {
        all.push_back(inner.toTensor());
        if (argument.written) {
          written.push_back(inner.toTensor());
        }
      }
      return false;
    });
  }
  return std::any_of(written.begin(), written.end(), [&all](const Tensor& to) {
    return at::has_internal_overlap(to) == at::MemOverlap::Yes ||
        std::any_of(all.begin(), all.end(), [&to](const Tensor& other) {
             return at::get_overlap_status(to, other) == at::MemOverlapStatus::Partial;
           });
  });
}

// Puts results of the right shapes onto the stack. False if the shapes cannot be known without
// data.
bool give_hollow_results(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const Stack& arguments,
    c10::DeviceIndex index,
    Stack* stack) {
  Stack meta(arguments);
  try {
    for (const auto& argument : facts.arguments) {
      meta[argument.position] = on_meta(arguments[argument.position], argument);
    }
    op.redispatchBoxed(kMeta, &meta);
  } catch (const std::exception&) {
    return false; // the caller raises the error itself
  }
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

bool run_keeping_failure(
    const c10::OperatorHandle& op,
    const OperatorFacts& facts,
    const Stack& arguments,
    c10::DeviceIndex index,
    Stack* stack,
    const std::function<void()>& run) {
  const auto below = stack->size() - facts.argument_count;
  try {
    run();
    return true;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::TypeError&) {
    throw;
  } catch (const c10::ValueError&) {
    throw;
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::LinAlgError&) {
    throw; // solvers ask the device for success, and wait for the answer
  } catch (const c10::Error& error) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    stack->resize(below);
    if (overlaps(facts, arguments) ||
        !give_hollow_results(op, facts, arguments, index, stack)) {
      throw;
    }
    keep_error(index, c10::str(op.operator_name(), ": ", error.what_without_backtrace()));
    return false;
  }
}

} // namespace chip
