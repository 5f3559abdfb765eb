// Bindings of the subfolders, in addition to those of `bindings.cpp`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace chip {

// The function that takes a card and returns its number, or raises an error; None if there is none.
void set_acquirer(const py::object& function);

void bind_collective(py::module& module);
void bind_faults(py::module_& m);
void bind_profiling(py::module_& m);
void bind_operator_trace(py::module_& m);

} // namespace chip
