#include "operators/fallback.h"

#include "device/autograd_threads.h"
#include "device/device.h"
#include "device/device_errors.h"
#include "faults/faults.h"
#include "graphs/recorded_kernel.h"
#include "graphs/recording.h"
#include "memory/alias.h"
#include "memory/host_memory.h"
#include "operators/call_translation.h"
#include "operators/direct.h"
#include "operators/kept_failure.h"
#include "operators/operator_facts.h"
#include "operators/products.h"
#include "profiling/activity.h"
#include "profiling/operator_trace.h"

#include <ATen/TracerMode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

namespace chip {
namespace {

using at::Tensor;
using c10::OperatorHandle;
using torch::jit::Stack;

const c10::DispatchKeySet kAboveKernels = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::DispatchKeySet(c10::DispatchKey::AutocastCPU);
constexpr c10::DispatchKeySet kCPU(c10::DispatchKey::CPU);

void run_kernel(
    const OperatorHandle& op, const OperatorFacts& facts, Stack* stack, bool sparse) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kAboveKernels);
  if (sparse) {
    op.callBoxed(stack);
  } else if (C10_UNLIKELY(facts.product != Product::none)) {
    multiply(op, facts, stack);
  } else {
    op.redispatchBoxed(kCPU, stack);
  }
}

void run_dense_kernel(const OperatorHandle& op, const OperatorFacts& facts, Stack* stack) {
  run_kernel(op, facts, stack, /*sparse=*/false);
}

void refuse_sparse(const OperatorHandle& op, c10::DeviceIndex index) {
  refuse_while_capturing(
      index,
      c10::toString(op.operator_name()) + " has a sparse tensor",
      "use dense tensors in the capture");
}

void refuse_uncapturable(
    const OperatorHandle& op,
    const Stack& arguments,
    c10::DeviceIndex index,
    bool reads,
    bool sparse) {
  const auto name = c10::toString(op.operator_name());
  if (reads) {
    refuse_while_capturing(
        index,
        name + " needs values of its input on the host",
        "use an operator whose shapes do not depend on values, or call it outside of the capture");
  }
  if (sparse) {
    refuse_sparse(op, index);
  }
  for (const auto& argument : arguments) {
    argument.visit([&](const c10::IValue& inner) {
      if (inner.isTensor() && inner.toTensor().defined() && !on_chip(inner.toTensor()) &&
          inner.toTensor().dim() > 0) {
        refuse_while_capturing(
            index, name + " has indices on the CPU", "move them to the device before the capture");
      }
      return false;
    });
  }
}

// torch's tracer ignores the calls inside an operator that it records. It records them in an
// operator that it does not record, and the result would be a constant in the traced graph.
void refuse_unrecorded(const OperatorHandle& op, const OperatorFacts& facts) {
  for (const auto& result : facts.results) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        result.same_as >= 0,
        op.operator_name(),
        " on ",
        type_name(),
        " is not recorded by torch.jit.trace, and would be a constant of the traced model. Fix:"
        " trace it on the CPU");
  }
}

void run_on_cpu(
    const OperatorHandle& op, const OperatorFacts& facts, Stack* stack, bool sparse) {
  if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) {
    refuse_unrecorded(op, facts);
  }
  use();
  share_sequence_numbers();
  if (C10_UNLIKELY(facts.limits != nullptr)) {
    check_limits(*facts.limits, facts, *stack);
  }
  OperationFaults faults(op, facts, *stack);
  const bool keeps_errors = settings().asynchronous_errors;
  const auto* arguments = stack->data() + stack->size() - facts.argument_count;
  trace_operator(op.operator_name(), c10::ArrayRef<c10::IValue>(arguments, facts.argument_count));
  const bool captures = C10_UNLIKELY(detail::capturing.load(std::memory_order_acquire) >= 0);
  const bool reads =
      C10_UNLIKELY(keeps_errors || captures) && reads_data(facts, arguments);
  const Stack given(
      arguments,
      arguments + (C10_UNLIKELY(keeps_errors || captures) ? facts.argument_count : 0));
  CallTranslation call(op, facts);
  call.arguments_to_host(*stack);
  if (C10_UNLIKELY(captures)) {
    refuse_uncapturable(op, given, call.index(), reads, sparse);
  }
  if (reads) {
    raise_kept_error(call.index());
  }
  const auto run = [&] {
    try {
      run_kernel(op, facts, stack, sparse);
    } catch (const c10::Error& error) {
      call.follow_all();
      refuse_host_memory_of(error);
      throw;
    } catch (...) {
      call.follow_all();
      throw;
    }
  };
  const Activity kernel;
  bool done = true;
  if (C10_UNLIKELY(keeps_errors)) {
    done = run_keeping_failure(op, facts, given, call.index(), stack, run);
  } else {
    run();
  }
  kernel.end(op.operator_name().name, op.operator_name().overload_name, call.index());
  if (C10_LIKELY(done)) {
    call.results_to_device(*stack);
  }
  if (C10_UNLIKELY(captures) && is_capturing(call.index())) {
    const Stack results(stack->end() - static_cast<std::ptrdiff_t>(facts.result_count), stack->end());
    for (const auto& result : results) {
      if (result.isTensor() && result.toTensor().defined() && result.toTensor().layout() != at::kStrided) {
        refuse_sparse(op, call.index());
      }
    }
    record(
        c10::toString(op.operator_name()),
        RecordedKernel(op, facts, call.index(), run_dense_kernel, given, results));
  }
  faults.meet_results(op, facts, *stack);
}

// The fallback of one operator, with its facts read once.
struct Fallback : c10::OperatorKernel {
  explicit Fallback(const OperatorHandle& op) : facts(op) {}
  OperatorFacts facts;
};

template <bool sparse>
struct OperatorFallback final : Fallback {
  using Fallback::Fallback;
  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    run_on_cpu(op, facts, stack, sparse);
  }
};

// Lists of tensors may have several devices, as in _foreach_copy_. Then the CPU's composition of
// single operations runs on the device tensors themselves, and each finds its own device.
bool on_one_device(const OperatorFacts& facts, const Stack& stack) {
  const auto* arguments = stack.data() + stack.size() - facts.argument_count;
  std::optional<c10::Device> one;
  for (const auto& argument : facts.arguments) {
    const auto& value = arguments[argument.position];
    if (argument.kind != Kind::tensors || !value.isTensorList()) {
      continue;
    }
    for (const auto& element : value.toListRef()) {
      const auto device = element.toTensor().device();
      if (one && *one != device) {
        return false;
      }
      one = device;
    }
  }
  return true;
}

struct ForeachFallback final : Fallback {
  using Fallback::Fallback;
  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (on_one_device(facts, *stack)) {
      run_on_cpu(op, facts, stack, /*sparse=*/false);
    } else {
      op.redispatchBoxed(kCPU, stack);
    }
  }
};

// Torch composes a convolution of an operator that its tracer records instead of the convolution.
struct ConvolutionFallback final : Fallback {
  using Fallback::Fallback;
  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) {
      op.redispatchBoxed(kCPU, stack);
    } else {
      run_on_cpu(op, facts, stack, /*sparse=*/false);
    }
  }
};

// The form in a traced graph: the last four arguments are for cuDNN.
Tensor traced_convolution(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups,
    bool,
    bool,
    bool,
    bool) {
  return at::_ops::convolution::redispatch(
      c10::DispatchKeySet(kKey),
      input,
      weight,
      bias,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups));
}

void unregistered(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      op.operator_name(),
      " was called on ",
      type_name(),
      ", which runs what the CPU can run, but the CPU has no kernel for it");
  run_on_cpu(op, OperatorFacts(op), stack, /*sparse=*/false);
}

void unregistered_sparse(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  run_on_cpu(op, OperatorFacts(op), stack, /*sparse=*/true);
}

// Torch composes these of others, but requires CPU tensors for that: for oneDNN's algorithms, for a
// LAPACK driver, for a kernel table without other devices, or for the CPU's own function.
// addr_ checks its shape only where it is given one variable of C++ twice.
bool asks_for_cpu(std::string_view name, std::string_view overload) {
  constexpr std::pair<std::string_view, std::string_view> asking[] = {
      {"_batch_norm_no_update", ""},
      {"addr_", ""},
      {"convolution_backward", ""},
      {"conj_physical_", ""},
      {"kaiser_window", ""},
      {"kaiser_window", "beta"},
      {"kaiser_window", "periodic"},
      {"linalg_lstsq", ""},
      {"mkldnn_convolution", ""},
      {"mode", "values"}};
  return std::find(std::begin(asking), std::end(asking), std::pair(name, overload)) !=
      std::end(asking);
}

template <typename Kernel>
void give(torch::Library& library, const OperatorHandle& op) {
  library.impl(
      c10::toString(op.operator_name()).c_str(),
      torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op)));
}

} // namespace

void run_on_cpu(const OperatorHandle& op, const OperatorFacts& facts, Stack* stack) {
  run_on_cpu(op, facts, stack, /*sparse=*/false);
}

void register_fallbacks() {
  static torch::Library dense(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  static torch::Library sparse(torch::Library::IMPL, "aten", kSparseKey, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& full_name : dispatcher.getAllOpNames()) {
    constexpr std::string_view aten = "aten::";
    const auto op = dispatcher.findSchema(full_name);
    if (!op || !full_name.name.starts_with(aten)) {
      continue;
    }
    if (!op->hasKernelForDispatchKey(kKey)) {
      const auto name = std::string_view(full_name.name).substr(aten.size());
      if (name.starts_with("_foreach_")) {
        give<ForeachFallback>(dense, *op); // cheaper once than for each tensor
      } else if (name == "convolution" && full_name.overload_name.empty()) {
        give<ConvolutionFallback>(dense, *op);
      } else if (
          op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
          asks_for_cpu(name, full_name.overload_name)) {
        if (!give_direct(dense, *op)) {
          give<OperatorFallback<false>>(dense, *op);
        }
      }
    }
    if (op->hasKernelForDispatchKey(c10::DispatchKey::SparseCPU) &&
        !op->hasKernelForDispatchKey(kSparseKey)) {
      give<OperatorFallback<true>>(sparse, *op);
    }
  }
}

TORCH_LIBRARY_IMPL(_, CHIP_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unregistered>());
}

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("_convolution", traced_convolution);
}

TORCH_LIBRARY_IMPL(aten, CHIP_SPARSE_KEY, m) {
  m.impl("copy_", at::native::copy_sparse_wrapper_); // from other devices too
  m.impl("copy_sparse_to_sparse_", at::native::copy_sparse_);
}

TORCH_LIBRARY_IMPL(_, CHIP_SPARSE_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unregistered_sparse>());
}

} // namespace chip
