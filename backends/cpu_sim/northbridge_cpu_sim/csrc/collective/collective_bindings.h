// The communication library, as Python makes its groups.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace chip {

void bind_collective(py::module& module);

} // namespace chip
