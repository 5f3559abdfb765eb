// The threads on which autograd runs the backward of a device, where the chip has them.
#pragma once

namespace chip {

// Lets the nodes of a graph that several threads make be numbered as if one thread had made them.
//
// Torch counts in each thread, and a backward runs the node of the highest number first. In a graph
// that a backward has made, gradients would otherwise be added up in another order than the CPU's.
void share_sequence_numbers() noexcept;

// Waits until they are done with what they have run; called once, before the interpreter ends.
//
// A backward returns before its thread has dropped what it was given, for which the thread may need
// the interpreter. If that ends first, the thread takes the process down.
void settle_autograd_threads();

} // namespace chip
