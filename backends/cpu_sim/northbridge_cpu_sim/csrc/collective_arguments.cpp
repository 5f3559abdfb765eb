#include "collective_arguments.h"

#include "alias.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace chip {

at::Tensor host_argument(
    const CollectiveLimits& limits, const char* call, const at::Tensor& tensor) {
  limits.check_call(call);
  limits.check_dtype(call, tensor.scalar_type());
  limits.check_dtype(CollectiveLimits::kEveryCall, tensor.scalar_type());
  return owning_host_alias(tensor);
}

Reducible::Reducible(
    const CollectiveLimits& limits,
    const char* call,
    const c10d::ReduceOp& reduction,
    const std::vector<at::Tensor>& tensors) {
  limits.check_call(call);
  limits.check_reduction(reduction);
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const auto& tensor : tensors) {
    limits.check_dtype(call, tensor.scalar_type());
    aliases_.push_back(owning_host_alias(tensor));
    handed_.push_back(aliases_.back().to(limits.reduced_as(tensor.scalar_type())));
    limits.check_dtype(CollectiveLimits::kEveryCall, handed_.back().scalar_type());
    is_converted_ |= !handed_.back().is_same(aliases_.back());
  }
}

void Reducible::cast_back() const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (size_t i = 0; i < aliases_.size(); ++i) {
    if (!handed_[i].is_same(aliases_[i])) {
      aliases_[i].copy_(handed_[i]);
    }
  }
}

} // namespace chip
