// Runs any operator without a kernel of the chip on the CPU's kernel, on the same memory: arguments
// become aliases, results become device tensors, nothing is copied.
#pragma once

namespace chip {

// Registers the fallback for every operator whose CPU kernel would lose to torch's composition of
// other operators. Called once, after all kernels are registered. The general fallback catches
// operators without either.
void register_fallbacks();

} // namespace chip
