// The collective library of the simulated chip: Gloo, on CPU aliases of device tensors.
#pragma once

#include "collective_limits.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>

namespace chip {

c10::intrusive_ptr<c10d::Backend> make_collective(
    c10::intrusive_ptr<c10d::Backend> gloo, std::string name, CollectiveLimits limits);

} // namespace chip
