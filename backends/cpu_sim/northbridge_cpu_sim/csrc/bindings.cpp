// What the package `module` calls.
#include "bindings.h"

#include "device/acquisition.h"
#include "device/autograd_threads.h"
#include "device/dtypes.h"
#include "device/generator.h"
#include "memory/memory.h"
#include "operators/fallback.h"
#include "operators/operation_limits.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace {

void configure(
    int devices,
    int64_t memory,
    std::string label,
    bool one_per_process,
    bool autograd_threads,
    bool deferred_streams,
    bool nan_in_fresh_memory,
    bool trap_freed_memory,
    bool asynchronous_errors,
    const py::object& acquire) {
  chip::configure(
      {devices,
       memory,
       std::move(label),
       one_per_process,
       autograd_threads,
       deferred_streams,
       nan_in_fresh_memory,
       trap_freed_memory,
       asynchronous_errors});
  chip::set_acquirer(acquire);
}

using Sentences = std::map<c10::ScalarType, std::string>;

void configure_operations(
    const std::map<std::string, std::string>& wholly,
    const std::map<std::string, Sentences>& for_dtypes) {
  std::map<std::string, chip::OperationLimits> lacking;
  for (const auto& [name, sentence] : wholly) {
    lacking[name].wholly = sentence;
  }
  for (const auto& [name, sentences] : for_dtypes) {
    lacking[name].dtypes = sentences;
  }
  chip::configure_operations(std::move(lacking));
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  chip::bind_faults(m);
  m.def(
      "configure",
      configure,
      py::arg("devices"),
      py::arg("memory"),
      py::arg("label"),
      py::arg("one_per_process"),
      py::arg("autograd_threads"),
      py::arg("deferred_streams"),
      py::arg("nan_in_fresh_memory"),
      py::arg("trap_freed_memory"),
      py::arg("asynchronous_errors"),
      py::arg("acquire"));
  m.def("configure_operations", configure_operations, py::arg("wholly"), py::arg("for_dtypes"));
  m.def("register_fallbacks", [] {
    static const bool registered = (chip::register_fallbacks(), true);
    (void)registered;
  });
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
}
