// What the package `faults` calls.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace chip {

void bind_faults(py::module_& m);

} // namespace chip
