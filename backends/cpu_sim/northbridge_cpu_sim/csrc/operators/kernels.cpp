// The kernels that cannot be the CPU's: they allocate, read or re-point device memory.
#include "device/device_errors.h"
#include "device/dtypes.h"
#include "faults/faults.h"
#include "graphs/recording.h"
#include "memory/alias.h"
#include "memory/memory.h"
#include "streams/streams.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout_backward.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <vector>

namespace chip {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

constexpr c10::DispatchKeySet kKeys(kKey);

c10::DeviceIndex target(optional<c10::Device> device, optional<bool> pin_memory) {
  TORCH_CHECK(
      !pin_memory.value_or(false),
      "pinned memory was asked for on ",
      type_name(),
      ", but only memory of the CPU can be pinned. Fix: leave pin_memory out");
  use();
  return device ? checked_index(device->index()) : current_device();
}

// As on the CPU: under torch.use_deterministic_algorithms unwritten memory is deterministic too.
Tensor filled_if_deterministic(Tensor made) {
  const auto& context = at::globalContext();
  if (C10_UNLIKELY(
          context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(made);
  }
  return made;
}

Tensor empty(
    IntArrayRef size,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout>,
    optional<c10::Device> device,
    optional<bool> pin_memory,
    optional<c10::MemoryFormat> memory_format) {
  const auto of = c10::dtype_or_default(dtype);
  check_dtype(of);
  CurrentDevice on(target(device, pin_memory));
  meet_faults("aten::empty", current_device());
  return filled_if_deterministic(
      at::detail::empty_generic(size, allocator(), kKeys, of, memory_format));
}

Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout>,
    optional<c10::Device> device,
    optional<bool> pin_memory) {
  const auto of = c10::dtype_or_default(dtype);
  check_dtype(of);
  CurrentDevice on(target(device, pin_memory));
  meet_faults("aten::empty_strided", current_device());
  return filled_if_deterministic(
      at::detail::empty_strided_generic(size, stride, allocator(), kKeys, of));
}

// Zeros without memory, which torch hides from every kernel. Sums keep the other's layout.
Tensor efficient_zero_tensor(
    IntArrayRef size,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout>,
    optional<c10::Device> device,
    optional<bool> pin_memory) {
  const auto of = c10::dtype_or_default(dtype);
  check_dtype(of);
  const CurrentDevice on(target(device, pin_memory));
  static auto* const nowhere = [] { // lives as long as such tensors
    auto* allocators = new std::vector<at::native::ZeroTensorAllocator>;
    for (c10::DeviceIndex index = 0; index < kMaxDevices; ++index) {
      allocators->emplace_back(c10::Device(kDeviceType, index));
    }
    return allocators;
  }();
  return at::detail::empty_generic(
      size, &(*nowhere)[current_device()], kKeys.add(c10::DispatchKey::ZeroTensor), of, std::nullopt);
}

at::Scalar read(const Tensor& self) {
  use();
  meet_faults("aten::_local_scalar_dense", self.device().index());
  refuse_while_capturing(
      self.device().index(), "a value was read on the host, as item() does", "read it after the capture");
  catch_up(self.device().index());
  raise_kept_error(self.device().index());
  return at::native::_local_scalar_dense_cpu(host_alias(self));
}

const Tensor& resize(
    const Tensor& self, IntArrayRef size, optional<c10::MemoryFormat> memory_format) {
  CurrentDevice on(self.device().index());
  meet_faults("aten::resize_", current_device());
  const auto bytes = c10::multiply_integers(size) * self.element_size();
  if (self.storage().nbytes() > 0 && bytes > self.storage().nbytes()) {
    // Recorded calls may have the old memory.
    refuse_while_capturing(
        current_device(), "a tensor was resized in place", "give it its shape before the capture");
  }
  catch_up(current_device()); // writes to the old memory would be lost with it
  const auto sizes = self.sizes().vec();
  const auto strides = self.strides().vec();
  try {
    return at::native::resize_(self, size, memory_format);
  } catch (...) {
    // It changes the shape first, which would then exceed the memory.
    self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    throw;
  }
}

Tensor& set_storage_at(
    Tensor& self, at::Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  CurrentDevice on(self.device().index());
  catch_up(current_device());
  const auto storage = self.storage();
  const auto sizes = self.sizes().vec();
  const auto strides = self.strides().vec();
  const auto before = self.storage_offset();
  try {
    at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
  } catch (...) { // the source had to grow, but could not
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(storage);
    impl->set_sizes_and_strides(sizes, strides, before);
    throw;
  }
  if (is_held_narrower(self.scalar_type())) {
    narrow(host_alias(self)); // torch.load copies bytes, and sets their dtype afterwards
  }
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source) {
  CurrentDevice on(self.device().index());
  return at::native::set_(self, std::move(source));
}

Tensor& set_nothing(Tensor& self) {
  CurrentDevice on(self.device().index());
  at::Storage nothing(
      at::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), /*resizable=*/true);
  return at::native::set_storage_cpu_(self, std::move(nothing), 0, {0}, {});
}

// Torch's shares the memory until it is written, which only its own allocators support.
Tensor lazy_clone(const Tensor& self) {
  return self.clone();
}

// The same bytes with another dtype.
Tensor view_as(const Tensor& self, c10::ScalarType dtype) {
  check_dtype(dtype);
  return at::native::view_dtype(self, dtype);
}

void record_stream(Tensor& self, c10::Stream stream) {
  use();
  record_use(self.storage().data_ptr(), stream);
}

// Without it, Module.to() makes new parameters: tied weights come apart, and an earlier optimizer
// keeps the old ones.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  const auto is_dense = [](const Tensor& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_quantized() &&
        (tensor.device().is_cpu() || on_chip(tensor));
  };
  return (is_dense(self) && is_dense(from)) || self.key_set() == from.key_set();
}

// It has no generator argument; composed, its random numbers come from the device's generator.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, optional<bool> train) {
  if (input.numel() == 0 || !train.value_or(true)) {
    return at::native::native_dropout_cpu(input, p, train);
  }
  TORCH_CHECK(
      at::canCast(at::result_type(input, 1.0), input.scalar_type()),
      "dropout scales by a fraction, which a tensor of ",
      input.scalar_type(),
      " cannot hold. Fix: make it floating-point first");
  const double kept = 1 - p;
  auto mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(kept);
  auto output = at::native_dropout_backward(input, mask, kept == 0 ? 0 : 1 / kept);
  return {std::move(output), std::move(mask)};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", efficient_zero_tensor);
  m.impl("_local_scalar_dense", read);
  m.impl("resize_", resize);
  m.impl("set_", set_nothing);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_at);
  m.impl("_lazy_clone", lazy_clone);
  m.impl("record_stream", record_stream);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);

  // Torch's own views are correct for any device with strides.
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view.dtype", view_as);
  m.impl("native_dropout", native_dropout);
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

} // namespace chip
