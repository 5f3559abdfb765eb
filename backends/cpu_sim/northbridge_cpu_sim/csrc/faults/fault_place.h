// Which rank this process is, and how many steps it has taken: Python knows.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>

namespace chip {

struct FaultPlace {
  int64_t rank = 0;
  int64_t step = 0;
};

// The function that gives both.
void set_fault_place(const py::object& function);
FaultPlace fault_place();

} // namespace chip
