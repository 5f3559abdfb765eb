// Acquisition of the one card that a process may hold, by a Python function.
#pragma once

#include <cstdint>

namespace chip {

// True if there is a function that takes a card: `set_acquirer`.
bool has_acquirer() noexcept;

// Calls it with the GIL unless a thread of this process has done so successfully, and returns the
// card. Its error becomes a RuntimeError of the same text.
int64_t acquired_card();

// A forked child holds nothing: the card stays its parent's.
void forget_acquired_card();

} // namespace chip
