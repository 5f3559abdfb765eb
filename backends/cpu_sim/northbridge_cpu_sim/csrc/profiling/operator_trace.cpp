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
  PyObject* on_new = nullptr; // called after the first run of a graph
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

// Counts a run of a graph; true if it is the first.
bool count_run(size_t graph) {
  return ++traced.runs[graph] == 1;
}

void tell_of_new_graph() {
  if (traced.on_new != nullptr && Py_IsInitialized()) {
    const py::gil_scoped_acquire gil;
    py::reinterpret_borrow<py::object>(traced.on_new)();
  }
}

void trace_operators(bool between_markers, const py::object& on_new) {
  const std::lock_guard<std::mutex> lock(traced.mutex);
  traced.between_markers = between_markers;
  traced.on_new = on_new.is_none() ? nullptr : py::object(on_new).release().ptr();
  operators_are_traced = true;
}

void mark_graph() {
  bool is_new = false;
  {
    const std::lock_guard<std::mutex> lock(traced.mutex);
    is_new = traced.open != 0 && count_run(traced.open);
    traced.open = 0;
  }
  if (is_new) {
    tell_of_new_graph();
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
  bool is_new = false;
  {
    const std::lock_guard<std::mutex> lock(traced.mutex);
    if (traced.between_markers) {
      mix_into(traced.open, hash);
    } else {
      is_new = count_run(hash);
    }
  }
  if (is_new) {
    tell_of_new_graph();
  }
}

void bind_operator_trace(py::module_& m) {
  m.def("trace_operators", trace_operators, py::arg("between_markers"), py::arg("on_new"));
  m.def("mark_graph", mark_graph);
  m.def("graph_runs", graph_runs);
}

} // namespace chip
