// What the package `module` calls.
#include "collective.h"
#include "fallback.h"
#include "generator.h"
#include "memory.h"

#include <torch/csrc/utils/pybind.h>

namespace {

void configure(int64_t devices, int64_t memory, std::string label) {
  chip::configure(devices, memory, std::move(label));
  static const bool registered = (chip::register_fallbacks(), true);
  (void)registered;
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("configure", configure, py::arg("devices"), py::arg("memory"), py::arg("label"));
  m.def("label", [] { return chip::settings().label; });
  m.def("use", chip::use);
  m.def("in_use", chip::in_use);
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
  m.def(
      "make_collective",
      chip::make_collective,
      py::arg("gloo"),
      py::arg("name"),
      py::call_guard<py::gil_scoped_release>());
}
