// Bindings for the package `module`.
#include "bindings.h"

#include "device/autograd_threads.h"
#include "device/dtypes.h"
#include "device/generator.h"
#include "graphs/graph.h"
#include "memory/memory.h"
#include "operators/fallback.h"
#include "operators/operation_limits.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  chip::bind_faults(m);
  chip::bind_operator_trace(m);
  py::class_<chip::Settings>(m, "Settings")
      .def(py::init<>())
      .def_readwrite("devices", &chip::Settings::devices)
      .def_readwrite("memory", &chip::Settings::memory)
      .def_readwrite("label", &chip::Settings::label)
      .def_readwrite("one_per_process", &chip::Settings::one_per_process)
      .def_readwrite("autograd_threads", &chip::Settings::autograd_threads)
      .def_readwrite("deferred_streams", &chip::Settings::deferred_streams)
      .def_readwrite("ordered_streams", &chip::Settings::ordered_streams)
      .def_readwrite("nan_in_fresh_memory", &chip::Settings::nan_in_fresh_memory)
      .def_readwrite("trap_freed_memory", &chip::Settings::trap_freed_memory)
      .def_readwrite("asynchronous_errors", &chip::Settings::asynchronous_errors)
      .def_readwrite("tf32_products", &chip::Settings::tf32_products)
      .def_readwrite("bfloat16_accumulation", &chip::Settings::bfloat16_accumulation)
      .def_readwrite("other_order", &chip::Settings::other_order)
      .def_readwrite("flush_denormals", &chip::Settings::flush_denormals);
  m.def("configure", [](chip::Settings settings, const py::object& acquire) {
    chip::configure(std::move(settings));
    chip::set_acquirer(acquire);
  });
  py::class_<chip::OperationLimits>(m, "OperationLimits")
      .def(py::init<>())
      .def_readwrite("wholly", &chip::OperationLimits::wholly)
      .def_readwrite("dtypes", &chip::OperationLimits::dtypes);
  m.def("configure_operations", chip::configure_operations);
  m.def("register_fallbacks", [] {
    static const bool registered = (chip::register_fallbacks(), true);
    (void)registered;
  });
  m.def("register_graph", chip::register_graph);
  m.def("configure_dtypes", chip::configure_dtypes, py::arg("lacks"), py::arg("held_as"));
  m.def("lacks", [](c10::ScalarType dtype) {
    return chip::detail::has(chip::detail::lacking, dtype);
  });
  m.def("share_sequence_numbers", chip::share_sequence_numbers);
  m.def("settle_autograd_threads", chip::settle_autograd_threads);
  m.def("label", [] { return chip::settings().label; });
  m.def("use", chip::use);
  m.def("in_use", chip::in_use);
  m.def("refuse_bad_fork", chip::refuse_bad_fork);
  m.def("in_bad_fork", chip::in_bad_fork);
  m.def("device_count", [] { return static_cast<int>(chip::device_count()); });
  m.def("current_device", [] { return static_cast<int>(chip::current_device()); });
  m.def(
      "checked_index", [](int64_t index) { return static_cast<int>(chip::checked_index(index)); });
  m.def("hold", chip::hold);
  m.def("within_reach", chip::within_reach);
  m.def("card", [](int64_t index) { return chip::card(chip::checked_index(index)); });
  m.def("exchange_device", [](int64_t index) {
    chip::use();
    return static_cast<int>(chip::exchange_device(chip::checked_index(index)));
  });
  m.def("default_generator", [](int64_t index) {
    return chip::default_generator(chip::checked_index(index));
  });
  chip::bind_collective(m);
  chip::bind_profiling(m);
}
