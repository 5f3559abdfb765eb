#include "collective/collective_arguments.h"

#include "collective/call_signature.h"
#include "device/device_errors.h"
#include "memory/alias.h"
#include "memory/stale.h"
#include "streams/streams.h"

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

// The dtypes of Gloo's templates.
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

// The library below reads a tensor's memory from its first element, and ignores strides.
bool is_in_one_piece(const at::Tensor& tensor, const Call& call, bool is_written) {
  if (call.type == c10d::OpType::REDUCE_SCATTER && !is_written) {
    return true; // handed() makes it contiguous
  }
  const bool is_copied_to = is_written &&
      (call.type == c10d::OpType::ALLGATHER || call.type == c10d::OpType::GATHER);
  return is_copied_to ? tensor.is_non_overlapping_and_dense()
                      : tensor.is_contiguous(tensor.suggest_memory_format());
}

void refuse_strides(const at::Tensor& tensor, const std::string& library, const Call& call) {
  TORCH_CHECK(
      false,
      library, "'s ", call.name, " was given a tensor of ", torch_name_of(tensor.scalar_type()),
      " whose shape ", tensor.sizes(), " and strides ", tensor.strides(),
      " are not contiguous. Fix: x.contiguous()");
}

// As bytes with the rows kept: uneven calls split the first dimension.
at::Tensor as_bytes(const at::Tensor& host, const std::string& library, const Call& call) {
  if (!host.is_contiguous()) {
    refuse_strides(host, library, call);
  }
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

// The reduction for Gloo. The sum and the product of bools are "any" and "all"; Gloo would add
// their bytes.
c10d::ReduceOp below(const c10d::ReduceOp& reduction, c10::ScalarType dtype) {
  const bool is_bool = dtype == at::kBool;
  switch (static_cast<Reduction>(reduction)) {
    case Reduction::SUM:
      return is_bool ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    case Reduction::PRODUCT:
      return is_bool ? c10d::ReduceOp::MIN : c10d::ReduceOp::PRODUCT;
    case Reduction::AVG:
    case Reduction::PREMUL_SUM:
      return c10d::ReduceOp::SUM;
    default:
      return reduction;
  }
}

std::optional<double> factor_of(const Call& call) {
  if (!call.reduction || static_cast<Reduction>(*call.reduction) != Reduction::PREMUL_SUM) {
    return std::nullopt;
  }
  const auto* factor =
      dynamic_cast<c10d::PreMulSumSupplement*>(call.reduction->supplement_.get());
  TORCH_INTERNAL_ASSERT(factor != nullptr); // torch always sets it for this reduction
  return factor->tensor_factor.defined() ? factor->tensor_factor.item<double>()
                                         : factor->double_factor;
}

// For the tensor's own dtype.
void check_meaning(const std::string& library, const Call& call, c10::ScalarType dtype) {
  const auto reduction = static_cast<Reduction>(*call.reduction);
  TORCH_CHECK(
      reduction != Reduction::AVG || dtype != at::kBool,
      library, "'s ", call.name,
      " was asked for the average (ReduceOp.AVG) of bool, which is not a bool. Fix: convert the "
      "tensor to float32, or ask for 'any' (ReduceOp.MAX) or 'all' (ReduceOp.MIN)");
  TORCH_CHECK(
      reduction != Reduction::PREMUL_SUM || c10::isFloatingType(dtype),
      library, "'s ", call.name, " was asked for a sum with a factor (ReduceOp.PREMUL_SUM) of ",
      torch_name_of(dtype), ", which it does not multiply. Fix: convert the tensor to float32");
}

// For the dtype that Gloo gets.
void check_reduction(const std::string& library, const Call& call, c10::ScalarType dtype) {
  const auto reduction = static_cast<Reduction>(*call.reduction);
  TORCH_CHECK(
      knows(dtype),
      library, "'s ", call.name, " was asked for the ", name_of(*call.reduction), " of ",
      torch_name_of(dtype),
      ", which it cannot reduce. Fix: convert the tensor to a wider dtype, such as ",
      c10::isFloatingType(dtype) || c10::isComplexType(dtype) ? "float32" : "int64",
      c10::isComplexType(dtype) ? " by torch.view_as_real" : "");
  const bool bitwise = reduction == Reduction::BAND || reduction == Reduction::BOR ||
      reduction == Reduction::BXOR;
  TORCH_CHECK(
      !bitwise || c10::isIntegralType(dtype, /*includeBool=*/true),
      library, "'s ", call.name, " was asked for the ", name_of(*call.reduction), " of ",
      torch_name_of(dtype), ", which has no bits to combine. Fix: use an integer dtype or bool");
}

} // namespace

HostArguments::HostArguments(
    const CollectiveLimits& limits, const std::string& library, int size, const Call& call)
    : limits_(limits), size_(size), factor_(factor_of(call)) {
  limits.check_call(call.name);
  if (call.reduction) {
    limits.check_reduction(*call.reduction);
    is_averaged_ = call.writes_here && static_cast<Reduction>(*call.reduction) == Reduction::AVG;
  }
  // Threads of the library below write these tensors without inference mode.
  const c10::InferenceMode ordinary(false);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto hand_over = [&](const Tensors& from, Tensors& to, bool is_read, bool is_written) {
    to.reserve(from.size());
    for (const auto& tensor : from) {
      check(tensor, library, call, is_written);
      to.push_back(handed(tensor, call, is_read, is_written));
      const auto dtype = to.back().scalar_type();
      if (call.reduction) {
        check_reduction(library, call, dtype);
        tensors_.reduction = below(*call.reduction, dtype);
      } else if (!knows(dtype) && !call.is_point_to_point) {
        to.back() = as_bytes(to.back(), library, call);
      }
    }
  };
  hand_over(call.updated, tensors_.updated, true, call.writes_here);
  hand_over(call.in, tensors_.in, true, false);
  hand_over(call.out, tensors_.out, false, call.writes_here);
  is_staged_ &= !is_converted_;
}

void HostArguments::check(
    const at::Tensor& tensor, const std::string& library, const Call& call, bool is_written) {
  TORCH_CHECK(
      tensor.layout() == at::kStrided,
      library, "'s ", call.name, " was given a tensor of layout ", tensor.layout(),
      ", but sends only dense ones. Fix: x.to_dense()");
  TORCH_CHECK(
      on_chip(tensor),
      library, "'s ", call.name, " was given a tensor on ", tensor.device(),
      ", but sends only those on ", type_name(), ". Fix: x.to('", type_name(), "')");
  const auto index = tensor.device().index();
  TORCH_CHECK(
      index_ < 0 || index == index_,
      library, "'s ", call.name, " was given tensors on ", c10::Device(kDeviceType, index_),
      " and ", tensor.device(), ", but one call takes one device. Fix: x.to('",
      c10::Device(kDeviceType, index_), "')");
  index_ = index;
  limits_.check_dtype(call.name, tensor.scalar_type());
  if (call.reduction) {
    check_meaning(library, call, tensor.scalar_type());
  }
  TORCH_CHECK(
      !is_written || !(tensor.is_conj() || tensor.is_neg()),
      library, "'s ", call.name, " was given a tensor to write whose memory holds ",
      tensor.is_conj() ? "the conjugates" : "the negatives",
      " of its elements (a view by x.conj() or x.imag). Fix: x.resolve_",
      tensor.is_conj() ? "conj" : "neg", "()");
  if (!is_in_one_piece(tensor, call, is_written)) {
    refuse_strides(tensor, library, call);
  }
}

at::Tensor HostArguments::handed(
    at::Tensor tensor, const Call& call, bool is_read, bool is_written) {
  check_working(index_);
  catch_up(index_);
  if (!is_written) {
    tensor = tensor.resolve_conj().resolve_neg();
    if (!is_in_one_piece(tensor, call, /*is_written=*/true)) {
      tensor = tensor.contiguous();
    }
  }
  auto alias = owning_host_alias(tensor);
  auto host = call.reduction ? alias.to(limits_.reduced_as(tensor.scalar_type())) : alias;
  limits_.check_dtype(CollectiveLimits::kEveryCall, host.scalar_type());
  if (factor_ && is_read) {
    host = host.mul(*factor_);
  }
  if (!host.is_same(alias)) {
    is_converted_ |= is_written;
  } else if (streams_are_deferred()) {
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

void HostArguments::average() const {
  const c10::InferenceMode ordinary(false);
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const auto* written : {&tensors_.updated, &tensors_.out}) {
    for (const auto& sum : *written) {
      if (c10::isFloatingType(sum.scalar_type())) {
        sum.div_(size_);
      } else {
        sum.div_(size_, "trunc"); // true division would use float32
      }
    }
  }
}

void HostArguments::make_results_stale() const {
  for (const auto& copy : copies_) {
    make_stale(copy.alias);
  }
}

void HostArguments::bring_back() const {
  if (was_read_tensor_written()) {
    make_results_stale();
  } else {
    cast_back();
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
