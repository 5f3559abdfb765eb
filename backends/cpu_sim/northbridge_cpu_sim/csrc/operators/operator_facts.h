// The facts of an operator for the fallback, read from its schema once.
#pragma once

#include "operators/operation_limits.h"
#include "operators/products.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

namespace chip {

enum class Kind : uint8_t { tensor, tensors, indices, device, generator };

struct Argument {
  uint16_t position;
  Kind kind;
  bool written; // in place, or out=
};

struct Result {
  uint16_t position;
  Kind kind;
  int16_t same_as; // the position of the argument that is this result too, or -1
};

struct OperatorFacts {
  explicit OperatorFacts(const c10::OperatorHandle& op);

  const OperationLimits* limits; // null if the chip lacks nothing of it
  size_t argument_count;
  size_t result_count;
  Product product;
  bool shows_data; // the values of its arguments decide the shape of its results, or are one
  c10::SmallVector<Argument, 8> arguments; // the arguments that the fallback must translate
  c10::SmallVector<Result, 4> results;
};

// True if the host must read the device's data for a call: it waits for the device then, as on real
// chips.
bool reads_data(const OperatorFacts& facts, const c10::IValue* arguments);

// The device of the first argument that names one; the current device if none does.
c10::DeviceIndex device_of(const OperatorFacts& facts, const c10::IValue* arguments);

} // namespace chip
