// Runs any operator that the chip has no kernel of its own for on the CPU's kernel, over the same
// memory: arguments go in as aliases, results come back as device tensors, nothing is copied.
#pragma once

namespace chip {

// Gives the chip the fallback for every operator whose CPU kernel would otherwise be passed over
// for one that torch composes of other operators. Called once, after all kernels are registered;
// what has neither is caught by the fallback for all operators.
void register_fallbacks();

} // namespace chip
