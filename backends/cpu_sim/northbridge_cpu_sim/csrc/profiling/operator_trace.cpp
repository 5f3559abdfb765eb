#include "profiling/operator_trace.h"

#include "bindings.h"

#include <ATen/core/Tensor.h>
#include <c10/util/hash.h>
#include <pybind11/stl.h>

#include <mutex>
#include <string>
#include <unordered_map>

namespace chip {

std::atomic<bool> operators_are_traced{false};

namespace {

struct TracedGraphs {
  std::mutex mutex;
  bool between_markers = false;
  size_t open = 0; // the hash of the operators since the last marker; 0 if there are none
  std::unordered_map<size_t, int64_t> runs; // of each graph, by its hash
};

// Never destroyed: threads of torch outlive the interpreter.
TracedGraphs& traced = *new TracedGraphs;

template <typename Value>
void mix_into(size_t& hash, const Value& value) {
  hash = c10::hash_combine(hash, std::hash<Value>{}(value));
}

void mix_argument(size_t& hash, const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    mix_into(hash, tensor.defined() ? static_cast<int>(tensor.scalar_type()) : -1);
    for (const auto size : tensor.defined() ? tensor.sizes() : c10::IntArrayRef()) {
      mix_into(hash, size);
    }
  } else if (value.isInt()) {
    mix_into(hash, value.toInt());
  } else if (value.isBool()) {
    mix_into(hash, value.toBool());
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    mix_into(hash, elements.size());
    for (const auto& element : elements) {
      mix_argument(hash, element);
    }
  } else if (value.isString()) {
    mix_into(hash, value.toStringRef());
  } else {
    mix_into(hash, value.isNone());
  }
}

void trace_operators(bool between_markers) {
  const std::lock_guard<std::mutex> lock(traced.mutex);
  traced.between_markers = between_markers;
  operators_are_traced = true;
}

void mark_graph() {
  const std::lock_guard<std::mutex> lock(traced.mutex);
  if (traced.open != 0) {
    ++traced.runs[traced.open];
    traced.open = 0;
  }
}

std::unordered_map<size_t, int64_t> graph_runs() {
  const std::lock_guard<std::mutex> lock(traced.mutex);
  return traced.runs;
}

} // namespace

void detail::trace(const c10::OperatorName& name, c10::ArrayRef<c10::IValue> arguments) {
  size_t hash = 0;
  mix_into(hash, &name); // torch keeps one name of each operator, and comparing places is the quickest
  for (const auto& argument : arguments) {
    mix_argument(hash, argument);
  }
  const std::lock_guard<std::mutex> lock(traced.mutex);
  if (traced.between_markers) {
    mix_into(traced.open, hash);
  } else {
    ++traced.runs[hash];
  }
}

void bind_operator_trace(py::module_& m) {
  m.def("trace_operators", trace_operators, py::arg("between_markers"));
  m.def("mark_graph", mark_graph);
  m.def("graph_runs", graph_runs);
}

} // namespace chip
