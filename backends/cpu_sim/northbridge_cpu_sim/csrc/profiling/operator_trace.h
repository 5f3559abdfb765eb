// Distinct graphs of the operators that run on the chip, while they are traced.
//
// A graph is the sequence of operators between two markers, or one operator where there are no markers: names, and of
// the inputs shapes, dtypes, whole numbers, booleans and texts. A floating-point number, such as a learning rate, is an
// input of a graph and not a part of it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

namespace chip {

extern std::atomic<bool> operators_are_traced;

namespace detail {
void trace(const c10::OperatorName& name, c10::ArrayRef<c10::IValue> arguments);
} // namespace detail

// Adds an operator to the open graph. The arguments are still on the device.
inline void trace_operator(const c10::OperatorName& name, c10::ArrayRef<c10::IValue> arguments) {
  if (C10_UNLIKELY(operators_are_traced.load(std::memory_order_relaxed))) {
    detail::trace(name, arguments);
  }
}

} // namespace chip
