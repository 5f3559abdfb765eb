// How a process takes the one card that it may hold: by calling a function of Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>

namespace chip {

// The function that takes a card and gives its number, or raises; null where there is none.
void set_acquirer(const py::object& function);
bool has_acquirer() noexcept;

// Calls it with the GIL, if no thread of this process has done so with success, and gives the card.
// What it raises becomes a RuntimeError of the same text.
int64_t acquired_card();

// A forked child holds nothing: the card stays its parent's.
void forget_acquired_card();

} // namespace chip
