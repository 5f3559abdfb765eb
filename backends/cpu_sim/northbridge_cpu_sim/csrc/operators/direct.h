// Operators that are called in nearly every step, without the stack of the general fallback: their
// arguments stay where they are. A call that anything watches, limits or keeps takes the fallback.
#pragma once

#include "operators/operator_facts.h"

#include <torch/library.h>

namespace chip {

// Registers a direct kernel for the operator, if it has one. `facts` live as long as the process.
// Returns false for the others.
bool give_direct(torch::Library& library, const c10::OperatorHandle& op);

// The general fallback, for a call that cannot be direct.
void run_on_cpu(const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack);

} // namespace chip
