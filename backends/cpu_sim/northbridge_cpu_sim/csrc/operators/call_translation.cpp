#include "operators/call_translation.h"

#include "device/device.h"
#include "device/device_errors.h"
#include "device/dtypes.h"
#include "device/generator.h"
#include "memory/alias.h"
#include "memory/memory.h"
#include "operators/sparse.h"
#include "streams/streams.h"

#include <ATen/core/List.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace chip {

using at::Tensor;
using c10::IValue;

void CallTranslation::arguments_to_host(torch::jit::Stack& stack) {
  IValue* arguments = stack.data() + stack.size() - facts_.argument_count;
  IValue* generator = nullptr;
  for (const auto& argument : facts_.arguments) {
    IValue& value = arguments[argument.position];
    switch (argument.kind) {
      case Kind::tensor:
        if (value.isTensor()) {
          value = to_host(value.toTensor(), argument);
        }
        break;
      case Kind::tensors:
        if (value.isTensorList()) {
          c10::List<Tensor> translated;
          translated.reserve(value.toListRef().size());
          for (const IValue& element : value.toListRef()) {
            translated.push_back(to_host(element.toTensor(), argument));
          }
          value = std::move(translated);
        }
        break;
      case Kind::indices:
        if (value.isList()) {
          c10::List<std::optional<Tensor>> translated;
          for (const IValue& element : value.toListRef()) {
            translated.push_back(
                element.isTensor() ? std::optional(to_host(element.toTensor(), argument))
                                   : std::nullopt);
          }
          value = std::move(translated);
        }
        break;
      case Kind::device:
        if (value.isDevice() && value.toDevice().type() == kDeviceType) {
          see_device({kDeviceType, checked_index(value.toDevice().index())}, argument);
        }
        value = c10::Device(c10::kCPU);
        break;
      case Kind::generator:
        generator = &value;
        break;
    }
  }
  if (C10_UNLIKELY(index_ < 0 && generator != nullptr && generator->isGenerator())) {
    const auto device = generator->toGenerator().device();
    index_ = device.type() == kDeviceType ? device.index() : index_;
  }
  if (index_ >= 0 && on_cpu_) {
    see_device(c10::kCPU, *on_cpu_);
  }
  if (generator != nullptr) {
    *generator =
        engine(generator->isGenerator() ? generator->toGenerator() : default_generator(index()));
  }
  check_working(index());
  catch_up(index());
}

void CallTranslation::results_to_device(torch::jit::Stack& stack) {
  IValue* results = stack.data() + stack.size() - facts_.result_count;
  follow_all();
  for (const auto& result : facts_.results) {
    IValue& value = results[result.position];
    if (result.kind == Kind::tensor && value.isTensor()) {
      value = result.same_as >= 0 ? argument_at(result.same_as) : to_device(std::move(value).toTensor());
    } else if (result.kind == Kind::tensors && value.isTensorList()) {
      c10::List<Tensor> translated;
      translated.reserve(value.toListRef().size());
      for (const IValue& element : value.toListRef()) {
        translated.push_back(to_device(element.toTensor()));
      }
      value = std::move(translated);
    }
  }
}

Tensor CallTranslation::to_host(const Tensor& tensor, const Argument& argument) {
  if (!tensor.defined()) {
    return tensor;
  }
  if (C10_UNLIKELY(!on_chip(tensor))) {
    // As on CUDA: a scalar may stay on the CPU, and so may a tensor's indices.
    const bool may_stay = tensor.device().is_cpu() && !argument.written &&
        (tensor.dim() == 0 || argument.kind == Kind::indices);
    if (!may_stay) {
      if (tensor.device().is_cpu()) {
        on_cpu_ = argument;
      } else {
        see_device(tensor.device(), argument);
      }
    }
    return tensor;
  }
  see_device(tensor.device(), argument);
  if (C10_UNLIKELY(tensor._is_zerotensor())) { // it has no memory
    TORCH_CHECK(!argument.written, kZerosWritten);
    return at::zeros(tensor.sizes(), tensor.options().device(c10::kCPU));
  }
  // Attention chooses another path if query, key and value are one. Lists are too long to search.
  const auto* same = argument.kind == Kind::tensors
      ? passed_.end()
      : std::find_if(passed_.begin(), passed_.end(), [&tensor](const Passed& passed) {
          return passed.device.is_same(tensor);
        });
  auto host = C10_UNLIKELY(same != passed_.end()) ? same->host
      : C10_UNLIKELY(tensor.is_sparse())          ? sparse_alias(tensor, host_alias)
                                                  : host_alias(tensor);
  passed_.push_back({tensor, host, argument.position, argument.written});
  return host;
}

void CallTranslation::see_device(c10::Device device, const Argument& argument) {
  if (C10_LIKELY(device.type() == kDeviceType && (index_ < 0 || index_ == device.index()))) {
    index_ = device.index();
    return;
  }
  TORCH_CHECK(
      false,
      "Expected all tensors to be on the same device, but found at least two devices, ",
      c10::Device(kDeviceType, index()),
      " and ",
      device,
      "! (when checking argument ",
      op_.schema().arguments()[argument.position].name(),
      " of ",
      op_.operator_name().name,
      ")");
}

c10::DeviceIndex CallTranslation::index() {
  return index_ >= 0 ? index_ : current_device();
}

void CallTranslation::follow_all() {
  struct Grown {
    const Passed& passed;
    size_t bytes;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::vector<Grown> grown; // in their earlier state
  for (const auto& passed : passed_) {
    if (!passed.written) {
      continue;
    }
    const auto& device = passed.device;
    const auto bytes = passed.host.is_sparse() ? 0 : device.storage().nbytes();
    const bool grows = !passed.host.is_sparse() && passed.host.storage().nbytes() != bytes;
    const auto sizes = grows ? device.sizes().vec() : std::vector<int64_t>();
    const auto strides = grows ? device.strides().vec() : std::vector<int64_t>();
    try {
      follow(passed);
    } catch (const c10::OutOfMemoryError&) {
      // This one is unchanged. The earlier ones are restored, so that memory in use is as before.
      for (const auto& other : grown) {
        const auto& host = other.passed.host.storage();
        at::native::resize_bytes_cpu(host.unsafeGetStorageImpl(), other.bytes);
        follow_host(other.passed.device.storage(), host);
        other.passed.device.unsafeGetTensorImpl()->set_sizes_and_strides(
            other.sizes, other.strides);
      }
      throw;
    }
    if (C10_UNLIKELY(grows)) {
      grown.push_back({passed, bytes, sizes, strides});
    }
  }
}

void CallTranslation::follow(const Passed& passed) {
  if (C10_UNLIKELY(passed.host.is_sparse())) {
    follow_sparse(
        passed.device, passed.host, [this](const Tensor& part) { return to_device(part); });
    return;
  }
  if (is_held_narrower(passed.host.scalar_type())) {
    narrow(passed.host);
  }
  follow_host(passed.device.storage(), passed.host.storage());
  follow_shape(passed.device, passed.host);
}

Tensor CallTranslation::argument_at(int16_t position) const {
  for (const auto& passed : passed_) {
    if (passed.position == position) {
      return passed.device;
    }
  }
  return {};
}

Tensor CallTranslation::to_device(Tensor host) {
  if (!host.defined()) {
    return host;
  }
  if (C10_UNLIKELY(host.is_sparse())) {
    for (const auto& passed : passed_) {
      if (passed.host.is_same(host)) {
        return passed.device;
      }
    }
    return sparse_from_host(
        host, index(), [this](const Tensor& part) { return dense_to_device(part); });
  }
  return dense_to_device(std::move(host));
}

Tensor CallTranslation::dense_to_device(Tensor host) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      host.key_set().has_all(c10::DispatchKeySet(c10::DispatchKey::CPU)) && host.has_storage(),
      op_.operator_name(),
      " gives a ",
      host.is_nested() ? "nested" : c10::str(host.layout()),
      " tensor of ",
      host.scalar_type(),
      ", which ",
      type_name(),
      " cannot hold. Fix: move the input to the CPU first");
  check_dtype(host.scalar_type());
  const auto& storage = host.storage();
  const bool shared = storage.use_count() > 1; // with an argument, or another result
  if (C10_UNLIKELY(shared)) {
    for (const auto& passed : passed_) {
      if (passed.host.is_same(host)) {
        return passed.device;
      }
      if (!passed.host.is_sparse() && passed.host.storage().is_alias_of(storage)) {
        return view_of(passed.device, host);
      }
    }
    if (is_held_narrower(host.scalar_type())) {
      narrow(host);
    }
    for (const auto& [from, to] : adopted_) {
      if (from.is_alias_of(storage)) {
        return shaped_as(host, to);
      }
    }
    adopted_.emplace_back(storage, adopt(storage, index()));
    return shaped_as(host, adopted_.back().second);
  }
  if (is_held_narrower(host.scalar_type())) {
    narrow(host);
  }
  auto device = adopt(storage, index());
  return turned_into(std::move(host), std::move(device));
}

} // namespace chip
