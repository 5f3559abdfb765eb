#include "operators/direct.h"

#include "device/autograd_threads.h"
#include "device/device.h"
#include "device/device_errors.h"
#include "device/dtypes.h"
#include "faults/faults.h"
#include "graphs/recording.h"
#include "memory/alias.h"
#include "memory/host_memory.h"
#include "memory/memory.h"
#include "profiling/activity.h"
#include "profiling/operator_trace.h"
#include "streams/streams.h"

#include <ATen/TracerMode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/zero_ops.h>

#include <type_traits>

namespace chip {
namespace {

using at::Tensor;
using c10::OperatorHandle;

const c10::DispatchKeySet kAboveDirect = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::DispatchKeySet(c10::DispatchKey::AutocastCPU);

// True if nothing needs the call's arguments in a list, before or after it.
bool is_unwatched() {
  return !at::tracer::impl::is_dispatch_enabled() && !faults_are_planned() &&
      !settings().asynchronous_errors && !operators_are_traced.load(std::memory_order_relaxed) &&
      !profiler_listens.load(std::memory_order_relaxed) &&
      detail::capturing.load(std::memory_order_acquire) < 0 && !anything_is_pending();
}

// On the device, or a number; others are refused, or computed in another way, by the fallback.
template <typename T>
bool is_direct(const T& argument, c10::DeviceIndex index) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return argument.defined() &&
        (on_chip(argument) ? argument.device().index() == index
                           : argument.dim() == 0 && argument.device().is_cpu());
  } else {
    return true;
  }
}

template <typename T>
decltype(auto) as_host(const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return alias_if_on_chip(argument);
  } else {
    return (argument);
  }
}

// The arithmetic of products depends on the settings, and for dtypes of 16 bits on their sizes.
bool is_plain_product(const OperatorFacts& facts, const Tensor& self) {
  return facts.product == Product::none ||
      (self.scalar_type() == at::kFloat && !settings().tf32_products && !settings().other_order);
}

template <typename Op, typename Schema>
struct Direct;

template <typename Op, typename Returned, typename First, typename... Rest>
struct Direct<Op, Returned(First, Rest...)> {
  static constexpr bool kInPlace = std::is_same_v<Returned, Tensor&>;
  static inline const OperatorHandle* op = nullptr;
  static inline const OperatorFacts* facts = nullptr;

  static Returned call(First self, Rest... rest) {
    if (C10_LIKELY(is_unwatched() && self.defined() && on_chip(self))) {
      const auto index = self.device().index();
      if (C10_LIKELY(
              !is_held_narrower(self.scalar_type()) && is_plain_product(*facts, self) &&
              (is_direct<std::decay_t<Rest>>(rest, index) && ...))) {
        use();
        share_sequence_numbers();
        check_working(index);
        try {
          return compute(index, self, rest...);
        } catch (const c10::Error& error) {
          refuse_host_memory_of(error);
          throw;
        }
      }
    }
    torch::jit::Stack stack;
    torch::jit::push(stack, self, rest...);
    run_on_cpu(*op, *facts, &stack);
    if constexpr (kInPlace) {
      return self;
    } else {
      return std::move(stack.back()).toTensor();
    }
  }

  static Returned compute(c10::DeviceIndex index, First self, Rest... rest) {
    auto host = host_alias(self);
    {
      const c10::impl::ExcludeDispatchKeyGuard guard(kAboveDirect);
      constexpr c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
      if constexpr (kInPlace) { // none of these resizes
        Op::redispatch(cpu, host, as_host<std::decay_t<Rest>>(rest)...);
        return self;
      } else {
        host = Op::redispatch(cpu, host, as_host<std::decay_t<Rest>>(rest)...);
      }
    }
    if constexpr (!kInPlace) { // none of these returns a view
      check_dtype(host.scalar_type());
      if (is_held_narrower(host.scalar_type())) {
        narrow(host);
      }
      auto device = adopt(host.storage(), index);
      return turned_into(std::move(host), std::move(device));
    }
  }
};

template <typename Op>
bool give_one(torch::Library& library, const OperatorHandle& op) {
  const auto& name = op.operator_name();
  if (name.name != Op::name || name.overload_name != Op::overload_name) {
    return false;
  }
  auto facts = std::make_unique<OperatorFacts>(op);
  if (facts->limits != nullptr) {
    return false;
  }
  using Kernel = Direct<Op, typename Op::schema>;
  Kernel::op = new OperatorHandle(op);
  Kernel::facts = facts.release();
  library.impl(c10::toString(name).c_str(), torch::CppFunction(&Kernel::call));
  return true;
}

template <typename... Ops>
bool give_any(torch::Library& library, const OperatorHandle& op) {
  return (give_one<Ops>(library, op) || ...);
}

} // namespace

bool give_direct(torch::Library& library, const OperatorHandle& op) {
  namespace ops = at::_ops;
  return give_any<
      ops::add_Tensor, ops::add__Tensor, ops::sub_Tensor, ops::sub__Tensor, ops::mul_Tensor,
      ops::mul__Tensor, ops::div_Tensor, ops::div__Tensor, ops::eq_Tensor, ops::neg, ops::sqrt,
      ops::rsqrt, ops::exp, ops::relu, ops::relu_, ops::sigmoid, ops::sigmoid_backward, ops::tanh,
      ops::tanh_backward, ops::gelu, ops::gelu_backward, ops::threshold_backward, ops::where_self,
      ops::fill__Scalar, ops::zero_, ops::lerp__Scalar, ops::addcmul_, ops::addcdiv_, ops::sum,
      ops::sum_dim_IntList, ops::mean, ops::mm, ops::bmm, ops::addmm, ops::_softmax,
      ops::_softmax_backward_data, ops::_log_softmax, ops::_log_softmax_backward_data>(library, op);
}

} // namespace chip
