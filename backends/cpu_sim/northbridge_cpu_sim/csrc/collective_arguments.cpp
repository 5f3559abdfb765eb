#include "collective_arguments.h"

#include "alias.h"
#include "call_signature.h"
#include "device_errors.h"
#include "stale.h"
#include "streams.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>

namespace chip {
namespace {

using Reduction = c10d::ReduceOp::RedOpType;

// What Gloo has templates for.
bool knows(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kChar:
    case at::kByte:
    case at::kBool:
    case at::kInt:
    case at::kLong:
      return true;
    default:
      return false;
  }
}

// As bytes, rows stay rows: uneven calls split the first dimension.
at::Tensor as_bytes(const at::Tensor& host, const std::string& library, const Call& call) {
  TORCH_CHECK(
      host.is_contiguous(),
      library, "'s ", call.name, " was given a tensor of ", torch_name_of(host.scalar_type()), " whose shape ",
      host.sizes(), " and strides ", host.strides(), " are not contiguous; give it x.contiguous()");
  auto bytes = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(host.storage()),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      caffe2::TypeMeta::Make<uint8_t>());
  const auto size = static_cast<int64_t>(host.nbytes());
  const auto offset = host.storage_offset() * static_cast<int64_t>(host.itemsize());
  auto* impl = bytes.unsafeGetTensorImpl();
  if (host.dim() > 0 && host.size(0) > 0) {
    const auto row = size / host.size(0);
    impl->set_sizes_and_strides(
        c10::IntArrayRef{host.size(0), row}, c10::IntArrayRef{row, 1}, offset);
  } else {
    impl->set_sizes_and_strides(c10::IntArrayRef{size}, c10::IntArrayRef{1}, offset);
  }
  return bytes;
}

// The sum and the product of truth values are "any" and "all"; Gloo would count in their bytes.
c10d::ReduceOp of_bools(const c10d::ReduceOp& reduction) {
  switch (static_cast<Reduction>(reduction)) {
    case Reduction::SUM:
      return c10d::ReduceOp::MAX;
    case Reduction::PRODUCT:
      return c10d::ReduceOp::MIN;
    default:
      return reduction;
  }
}

void check_reduction(
    const std::string& library, int size, const Call& call, c10::ScalarType dtype) {
  const auto reduction = static_cast<Reduction>(*call.reduction);
  TORCH_CHECK(
      reduction != Reduction::AVG,
      library, "'s ", call.name,
      " was asked for the average (ReduceOp.AVG), which it does not have; ask for the sum "
      "(ReduceOp.SUM) and divide it by the ", size, " ranks");
  TORCH_CHECK(
      reduction != Reduction::PREMUL_SUM,
      library, "'s ", call.name,
      " was asked for a sum with a factor (ReduceOp.PREMUL_SUM), which it does not have; multiply "
      "before, and ask for the sum (ReduceOp.SUM)");
  TORCH_CHECK(
      knows(dtype),
      library, "'s ", call.name, " was asked for the ", name_of(*call.reduction), " of ", torch_name_of(dtype),
      ", which it cannot reduce; convert the tensor to a wider dtype, such as ",
      c10::isFloatingType(dtype) || c10::isComplexType(dtype) ? "float32" : "int64",
      c10::isComplexType(dtype) ? " by torch.view_as_real" : "");
  const bool bitwise = reduction == Reduction::BAND || reduction == Reduction::BOR ||
      reduction == Reduction::BXOR;
  TORCH_CHECK(
      !bitwise || c10::isIntegralType(dtype, /*includeBool=*/true),
      library, "'s ", call.name, " was asked for the ", name_of(*call.reduction), " of ",
      torch_name_of(dtype), ", which has no bits to combine; give it whole numbers or bool");
}

} // namespace

HostArguments::HostArguments(
    const CollectiveLimits& limits, const std::string& library, int size, const Call& call)
    : limits_(limits) {
  limits.check_call(call.name);
  if (call.reduction) {
    limits.check_reduction(*call.reduction);
    tensors_.reduction = *call.reduction;
  }
  // Threads of the library below write what is made here, in no inference mode.
  const c10::InferenceMode ordinary(false);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto hand_over = [&](const Tensors& from, Tensors& to, bool is_read, bool is_written) {
    to.reserve(from.size());
    for (const auto& tensor : from) {
      TORCH_CHECK(
          tensor.layout() == at::kStrided,
          library, "'s ", call.name, " was given a tensor of layout ", tensor.layout(),
          ", and carries dense ones alone; give it x.to_dense()");
      to.push_back(handed(tensor, call, is_read, is_written));
      const auto dtype = to.back().scalar_type();
      if (call.reduction) {
        check_reduction(library, size, call, dtype);
        if (dtype == at::kBool) {
          tensors_.reduction = of_bools(*call.reduction);
        }
      } else if (!knows(dtype) && !call.is_point_to_point) {
        to.back() = as_bytes(to.back(), library, call);
      }
    }
  };
  hand_over(call.updated, tensors_.updated, true, call.writes_here);
  hand_over(call.in, tensors_.in, true, false);
  hand_over(call.out, tensors_.out, false, call.writes_here);
  is_staged_ &= !is_converted_;
  if (is_staged_) {
    for (const auto& copy : copies_) {
      make_stale(copy.alias);
    }
  }
}

at::Tensor HostArguments::handed(
    const at::Tensor& tensor, const Call& call, bool is_read, bool is_written) {
  limits_.check_dtype(call.name, tensor.scalar_type());
  if (on_chip(tensor)) {
    index_ = tensor.device().index();
    check_working(index_);
    catch_up(index_);
  }
  auto alias = owning_host_alias(tensor);
  auto host = call.reduction ? alias.to(limits_.reduced_as(tensor.scalar_type())) : alias;
  limits_.check_dtype(CollectiveLimits::kEveryCall, host.scalar_type());
  if (!host.is_same(alias)) {
    is_converted_ |= is_written;
  } else if (streams_are_deferred() && on_chip(tensor)) {
    host = is_read ? alias.clone() : at::empty_like(alias);
    is_staged_ |= is_written;
    if (!is_written) {
      read_.push_back({alias, host});
    }
  }
  if (is_written && !host.is_same(alias)) {
    copies_.push_back({std::move(alias), host});
  }
  return host;
}

void HostArguments::cast_back() const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const auto& copy : copies_) {
    copy.alias.copy_(copy.host);
  }
}

void HostArguments::bring_back() const {
  if (!was_read_tensor_written()) {
    cast_back();
    return;
  }
  for (const auto& copy : copies_) {
    make_stale(copy.alias);
  }
}

bool HostArguments::was_read_tensor_written() const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return std::any_of(read_.begin(), read_.end(), [this](const Copy& read) {
    const bool is_part_of_result =
        std::any_of(copies_.begin(), copies_.end(), [&read](const Copy& written) {
          return written.alias.storage().data() == read.alias.storage().data();
        });
    const auto now = read.alias.contiguous();
    const auto then = read.host.contiguous();
    return !is_part_of_result &&
        std::memcmp(now.const_data_ptr(), then.const_data_ptr(), now.nbytes()) != 0;
  });
}

} // namespace chip
