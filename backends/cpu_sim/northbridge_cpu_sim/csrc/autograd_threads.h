// The threads on which autograd runs the backward of a device, where the chip has them.
#pragma once

namespace chip {

// Waits until they are done with what they have run; called once, before the interpreter ends.
//
// A backward returns before its thread has dropped what it was given, for which the thread may need
// the interpreter. If that ends first, the thread takes the process down.
void settle_autograd_threads();

} // namespace chip
