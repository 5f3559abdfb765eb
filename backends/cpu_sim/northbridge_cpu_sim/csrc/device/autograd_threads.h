// The threads on which autograd runs the backward of a device, if the chip has them.
#pragma once

namespace chip {

// Numbers the nodes of a graph from several threads as if one thread had made them.  Torch counts
// in each thread, and a backward runs the node with the highest number first. In a graph that a
// backward has made, gradients would otherwise be added in another order than the CPU's.
void share_sequence_numbers() noexcept;

// Waits until they have finished their work; called once, before the interpreter ends.  A backward
// returns before its thread has dropped its objects, for which the thread may need the GIL. If the
// interpreter ends first, the thread crashes the process.
void settle_autograd_threads();

} // namespace chip
