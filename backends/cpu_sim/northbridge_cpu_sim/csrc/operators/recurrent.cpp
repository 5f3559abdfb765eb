// nn.LSTM, nn.GRU, nn.RNN and their cells. Torch composes them differently on the CPU (oneDNN's
// layers, other sums of the same gates). Here the CPU's composition runs whole: forward on aliases,
// and again in backward, through the CPU's autograd. Only the arguments are kept between the two,
// so that torch detects a change of one meanwhile.
#include "device/device.h"
#include "faults/faults.h"
#include "memory/alias.h"
#include "operators/call_translation.h"
#include "operators/recurrent_cells.h"
#include "profiling/activity.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

namespace chip {
namespace {

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;
using torch::autograd::variable_list;
using torch::jit::Stack;

// The facts that are equal for every call of one operator.
struct Layer {
  explicit Layer(const OperatorHandle& op) : op(op), facts(op) {
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() == "dropout") {
        dropout = static_cast<int>(i);
      } else if (arguments[i].name() == "train") {
        train = static_cast<int>(i);
      } else if (arguments[i].name() == "batch_sizes") { // always on the CPU
        auto& translated = facts.arguments;
        translated.erase(std::find_if(translated.begin(), translated.end(), [i](const auto& a) {
          return a.position == i;
        }));
      }
    }
  }

  OperatorHandle op;
  OperatorFacts facts;
  int dropout = -1; // the positions of these arguments
  int train = -1;
};

// Calls `see` with each defined tensor argument that must be on the device.
template <typename See>
void each_tensor(const Layer& layer, const IValue* arguments, const See& see) {
  for (const auto& argument : layer.facts.arguments) {
    const auto& value = arguments[argument.position];
    if (value.isTensor()) {
      if (value.toTensor().defined()) {
        see(value.toTensor());
      }
    } else if (value.isTensorList()) {
      for (const IValue& element : value.toListRef()) {
        see(element.toTensor());
      }
    }
  }
}

variable_list tensors_of(const Layer& layer, const IValue* arguments) {
  variable_list tensors;
  each_tensor(layer, arguments, [&tensors](const Tensor& x) { tensors.push_back(x); });
  return tensors;
}

// Replaces the tensors that each_tensor sees.
void replace_tensors(const Layer& layer, IValue* arguments, const variable_list& by) {
  auto next = by.begin();
  for (const auto& argument : layer.facts.arguments) {
    auto& value = arguments[argument.position];
    if (value.isTensor()) {
      if (value.toTensor().defined()) {
        value = *next++;
      }
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (size_t count = value.toListRef().size(); count > 0; --count) {
        list.push_back(*next++);
      }
      value = std::move(list);
    }
  }
}

variable_list results_of(const Layer& layer, const Stack& stack) {
  variable_list results;
  for (size_t i = stack.size() - layer.facts.result_count; i < stack.size(); ++i) {
    results.push_back(stack[i].toTensor());
  }
  return results;
}

bool needs_gradient(const Tensor& tensor) {
  return tensor.requires_grad();
}

// Torch's composition for devices other than the CPU, of operators that it can differentiate twice,
// trace, map and cast.
void compose(const OperatorHandle& op, Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::AutogradCPU), stack);
}

// For torch's tracer, which records the operators of a cell instead of the cell.
void compose_traced(const OperatorHandle& op, Stack* stack) {
  const auto& name = op.operator_name().name;
  if (name == "aten::lstm_cell") {
    compose_lstm_cell(stack);
  } else if (name == "aten::gru_cell") {
    compose_gru_cell(stack);
  } else {
    compose(op, stack);
  }
}

// The CPU's results for these tensors. With `leaves`, also the CPU's graph: it gets the aliases of
// the tensors that need a gradient.
variable_list run_on_host(
    const Layer& layer, Stack stack, const variable_list& tensors, variable_list* leaves) {
  use();
  replace_tensors(layer, stack.data(), tensors);
  auto checked = stack; // checks devices, and waits for pending work of the tensors
  CallTranslation(layer.op, layer.facts).arguments_to_host(checked);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const at::AutoGradMode with_graph(leaves != nullptr);
  variable_list aliases;
  for (const auto& tensor : tensors) {
    const c10::InferenceMode as_made(tensor.is_inference());
    aliases.push_back(owning_host_alias(tensor)); // autograd keeps this one
    if (tensor.requires_grad()) {
      aliases.back().set_requires_grad(true); // torch's products read it even without a graph
      if (leaves != nullptr) {
        leaves->push_back(aliases.back());
      }
    }
  }
  replace_tensors(layer, stack.data(), aliases);
  layer.op.callBoxed(&stack);
  return results_of(layer, stack);
}

// Makes the CPU tensors the device's; some are undefined.
variable_list to_device(const Layer& layer, c10::DeviceIndex index, const variable_list& host) {
  const CurrentDevice on(index);
  CallTranslation call(layer.op, layer.facts);
  variable_list device;
  for (const auto& tensor : host) {
    device.push_back(call.to_device(tensor));
  }
  return device;
}

// With a graph that is dropped: oneDNN rounds differently without one.
variable_list run_forward(
    const Layer& layer, const Stack& stack, const variable_list& tensors, bool with_graph) {
  OperationFaults faults(layer.op, layer.facts, stack);
  const auto& name = layer.op.operator_name();
  const auto index = tensors.front().device().index();
  const Activity kernel;
  variable_list leaves;
  auto results = run_on_host(layer, stack, tensors, with_graph ? &leaves : nullptr);
  for (auto& result : results) {
    result = result.detach();
  }
  kernel.end(name.name, name.overload_name, index);
  const auto given = to_device(layer, index, results);
  faults.meet_results(layer.op, layer.facts, Stack(given.begin(), given.end()));
  return given;
}

// The gradients of the tensors, through the CPU's graph, which is built again.
variable_list run_backward(
    const Layer& layer,
    Stack stack,
    const variable_list& tensors,
    const variable_list& gradients) {
  const auto& name = layer.op.operator_name();
  const auto index = tensors.front().device().index();
  const Activity kernel;
  variable_list leaves, outputs, seeds;
  const auto results = run_on_host(layer, std::move(stack), tensors, &leaves);
  for (size_t i = 0; i < results.size(); ++i) {
    if (gradients[i].defined() && results[i].requires_grad()) {
      outputs.push_back(results[i]);
      seeds.push_back(alias_if_on_chip(gradients[i]));
    }
  }
  const auto found = torch::autograd::grad(
      outputs,
      leaves,
      seeds,
      /*retain_graph=*/false,
      /*create_graph=*/false,
      /*allow_unused=*/true);
  kernel.end(name.name + "_backward", name.overload_name, index);
  return to_device(layer, index, found);
}

// The same, as device operators that have gradients themselves.
variable_list run_differentiable_backward(
    const Layer& layer,
    Stack stack,
    const variable_list& tensors,
    const variable_list& gradients) {
  variable_list leaves, outputs, seeds;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(leaves), needs_gradient);
  replace_tensors(layer, stack.data(), tensors);
  compose(layer.op, &stack);
  const auto results = results_of(layer, stack);
  for (size_t i = 0; i < results.size(); ++i) {
    if (gradients[i].defined() && results[i].requires_grad()) {
      outputs.push_back(results[i]);
      seeds.push_back(gradients[i]);
    }
  }
  return torch::autograd::grad(
      outputs, leaves, seeds, /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
}

// A plain node, because torch's templates for a function of one's own compile for seconds.
struct RecurrentBackward final : torch::autograd::Node {
  RecurrentBackward(const Layer& layer, Stack arguments, const variable_list& tensors)
      : Node(torch::autograd::collect_next_edges(tensors)),
        layer_(layer),
        arguments_(std::move(arguments)) {
    // The tensors are saved once, and are empty here.
    replace_tensors(layer_, arguments_.data(), variable_list(tensors.size(), at::empty({0})));
  }

  void save(const variable_list& tensors) {
    for (const auto& tensor : tensors) {
      saved_.emplace_back(tensor, /*is_output=*/false);
    }
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list tensors;
    for (const auto& saved : saved_) {
      tensors.push_back(saved.unpack());
    }
    const auto run =
        at::GradMode::is_enabled() ? run_differentiable_backward : run_backward;
    const auto found = run(layer_, arguments_, tensors, gradients);
    variable_list all(tensors.size());
    auto next = found.begin();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (needs_gradient(tensors[i])) {
        all[i] = *next++;
      }
    }
    return all;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& saved : saved_) {
      saved.reset_data();
    }
  }

 private:
  const Layer& layer_; // lives as long as the process
  Stack arguments_;
  std::vector<torch::autograd::SavedVariable> saved_;
};

variable_list run_differentiable(
    const Layer& layer, const Stack& arguments, const variable_list& tensors) {
  if (const auto& functorch = at::functorch::functorchTLSAccessor()) {
    functorch->checkSupportsCppAutogradFunction();
  }
  const auto node = c10::make_intrusive<RecurrentBackward>(layer, arguments, tensors);
  variable_list results;
  {
    const at::AutoGradMode without_graph(false);
    results = run_forward(layer, arguments, tensors, /*with_graph=*/true);
  }
  torch::autograd::set_history(results, node);
  node->save(tensors);
  return results;
}

// True if the CPU's composition can be used: not for tensors without memory or modes that need
// single operators, and not if random numbers must come from the device's generator.
bool can_be_whole(const Layer& layer, const IValue* arguments) {
  if (at::autocast::is_autocast_enabled(kDeviceType) ||
      c10::impl::TorchDispatchModeTLS::any_modes_set() ||
      c10::impl::dispatch_mode_enabled() ||
      (layer.dropout >= 0 && arguments[layer.train].toBool() &&
       arguments[layer.dropout].toDouble() > 0)) {
    return false;
  }
  bool can = true;
  each_tensor(layer, arguments, [&can](const Tensor& x) {
    can = can && on_chip(x) && !at::isTensorSubclassLike(x) && x.has_storage() &&
        !x._fw_grad(/*level=*/0).defined();
  });
  return can;
}

struct Kernel final : c10::OperatorKernel {
  explicit Kernel(const OperatorHandle& op) : layer(op) {}

  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) {
      compose_traced(op, stack);
      return;
    }
    const auto count = layer.facts.argument_count;
    const auto* arguments = stack->data() + stack->size() - count;
    if (!can_be_whole(layer, arguments)) {
      compose(op, stack);
      return;
    }
    const Stack own(arguments, arguments + count);
    const auto tensors = tensors_of(layer, arguments);
    const bool with_graph = at::GradMode::is_enabled() &&
        std::any_of(tensors.begin(), tensors.end(), needs_gradient);
    const auto results = with_graph
        ? run_differentiable(layer, own, tensors)
        : run_forward(layer, own, tensors, /*with_graph=*/false);
    torch::jit::drop(*stack, count);
    stack->insert(stack->end(), results.begin(), results.end());
  }

  Layer layer;
};

constexpr const char* kLayers[] = {
    "lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input", "rnn_tanh.data",
    "rnn_relu.input", "rnn_relu.data", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"};

void give(torch::Library& library) {
  for (const std::string name : kLayers) {
    const auto dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        ("aten::" + name.substr(0, dot)).c_str(),
        dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
    library.impl(
        name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op)));
  }
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  give(m);
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  give(m);
}

} // namespace chip
