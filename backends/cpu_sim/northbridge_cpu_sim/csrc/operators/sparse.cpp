#include "operators/sparse.h"

#include "device/device.h"

#include <ATen/SparseTensorImpl.h>

namespace chip {
namespace {

at::SparseTensorImpl* impl_of(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

void fill(const at::Tensor& to, const at::Tensor& from, Crossing cross) {
  const auto* source = impl_of(from);
  auto* target = impl_of(to);
  target->raw_resize_(source->sparse_dim(), source->dense_dim(), source->sizes());
  target->set_indices_and_values_unsafe(cross(source->indices()), cross(source->values()));
  target->set_coalesced(source->coalesced());
}

at::Tensor make(c10::DispatchKey key, const at::Tensor& from, Crossing cross) {
  auto tensor =
      at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), from.dtype());
  fill(tensor, from, cross);
  return tensor;
}

} // namespace

at::Tensor sparse_alias(const at::Tensor& device, Crossing to_host) {
  return make(c10::DispatchKey::SparseCPU, device, to_host);
}

at::Tensor sparse_from_host(const at::Tensor& host, c10::DeviceIndex index, Crossing to_device) {
  CurrentDevice on(index);
  return make(kSparseKey, host, to_device);
}

void follow_sparse(const at::Tensor& device, const at::Tensor& host, Crossing to_device) {
  fill(device, host, to_device);
}

} // namespace chip
