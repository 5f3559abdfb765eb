// Bindings of the subfolders, in addition to those of `bindings.cpp`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace chip {

void bind_collective(py::module& module);
void bind_faults(py::module_& m);
void bind_profiling(py::module_& m);
void bind_operator_trace(py::module_& m);

} // namespace chip
