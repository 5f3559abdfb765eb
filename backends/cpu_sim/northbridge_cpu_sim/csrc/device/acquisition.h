// Acquisition of the one card that a process may hold, by a Python function.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>

namespace chip {

// The function that takes a card and returns its number, or raises an error; null if there is none.
void set_acquirer(const py::object& function);
bool has_acquirer() noexcept;

// Calls it with the GIL unless a thread of this process has done so successfully, and returns the
// card. Its error becomes a RuntimeError of the same text.
int64_t acquired_card();

// A forked child holds nothing: the card stays its parent's.
void forget_acquired_card();

} // namespace chip
