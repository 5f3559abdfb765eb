#include "memory/alias.h"

#include "memory/memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorImpl.h>

#include <utility>

namespace chip {
namespace {

void copy_shape(const at::Tensor& from, const at::Tensor& to) {
  const auto* source = from.unsafeGetTensorImpl();
  to.unsafeGetTensorImpl()->set_sizes_and_strides(
      source->sizes(), source->strides(), source->storage_offset());
}

void copy_bits(const at::Tensor& from, const at::Tensor& to) {
  if (C10_UNLIKELY(from.is_conj())) {
    to._set_conj(true);
  }
  if (C10_UNLIKELY(from.is_neg())) {
    to._set_neg(true);
  }
}

// Tensor::requires_grad_ treats an alias, which has only the CPU's key, as an inference tensor.
void require_grad(at::TensorImpl* impl) {
  auto meta = c10::impl::GetAutogradMetaFactory()->make();
  meta->set_requires_grad(true, impl);
  impl->set_autograd_meta(std::move(meta));
}

} // namespace

namespace {

at::Tensor alias_over(c10::Storage storage, const at::Tensor& device) {
  const auto* impl = device.unsafeGetTensorImpl();
  TORCH_CHECK(
      storage.nbytes() > 0 || impl->numel() == 0,
      "a tensor of ",
      impl->sizes(),
      " has no memory: its storage was resized to 0 bytes. Fix: resize the storage before the tensor"
      " is used");
  auto host = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW,
      std::move(storage),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      impl->dtype());
  copy_shape(device, host);
  copy_bits(device, host);
  if (C10_UNLIKELY(impl->is_wrapped_number())) {
    host.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  // Even without gradients, torch's products read it to choose kernels, which round differently.
  if (C10_UNLIKELY(impl->requires_grad()) && !c10::GradMode::is_enabled()) {
    require_grad(host.unsafeGetTensorImpl());
  }
  return host;
}

} // namespace

at::Tensor host_alias(const at::Tensor& device) {
  return alias_over(host_storage(device.unsafeGetTensorImpl()->unsafe_storage()), device);
}

at::Tensor recorded_host_alias(const at::Tensor& device) {
  return alias_over(owning_host_storage(device.storage()), device);
}

at::Tensor owning_host_alias(const at::Tensor& device) {
  auto host = at::detail::make_tensor<c10::TensorImpl>(
      owning_host_storage(device.storage()),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      device.dtype());
  copy_shape(device, host);
  copy_bits(device, host);
  return host;
}

at::Tensor shaped_as(const at::Tensor& host, c10::Storage device) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(device), c10::DispatchKeySet(kKey), host.dtype());
  copy_shape(host, tensor);
  copy_bits(host, tensor);
  return tensor;
}

at::Tensor turned_into(at::Tensor host, c10::Storage device) {
  auto* impl = host.unsafeGetTensorImpl();
  if (C10_UNLIKELY(host.use_count() != 1 || impl->is_wrapped_number())) {
    return shaped_as(host, std::move(device));
  }
  impl->_change_backend_component_keys(device.device());
  impl->set_storage_keep_dtype(std::move(device));
  return host;
}

at::Tensor view_of(const at::Tensor& base, const at::Tensor& host) {
  auto keys = base.key_set().remove(c10::DispatchKey::Conjugate).remove(c10::DispatchKey::Negative);
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), keys, host.dtype());
  copy_shape(host, view);
  copy_bits(host, view);
  return view;
}

void follow_shape(const at::Tensor& device, const at::Tensor& host) {
  const auto* from = host.unsafeGetTensorImpl();
  auto* to = device.unsafeGetTensorImpl();
  if (C10_UNLIKELY(
          from->storage_offset() != to->storage_offset() || from->sizes() != to->sizes() ||
          from->strides() != to->strides())) {
    copy_shape(host, device);
  }
}

} // namespace chip
