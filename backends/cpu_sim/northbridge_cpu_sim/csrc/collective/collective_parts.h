// The parts of a call's tensors that go to the ranks, or come from them, as Gloo takes them.
#pragma once

#include "collective/collective_call.h"

#include <chrono>

namespace chip {

// Gloo compares the sizes of a whole and its parts dimension by dimension; NCCL counts elements, and
// so takes parts that are stacked, too. As Gloo takes both.
at::Tensor in_a_row(const at::Tensor& host);
Tensors in_rows(const Tensors& host);

// Whether these are the parts of all ranks, and not all of one size.
bool have_own_sizes(const Tensors& parts, int ranks);

// Sends part i to rank i, and waits for theirs. Gloo has calls for parts of one size alone, and one
// for elements in a row.
WorkPtr exchange_parts(
    c10d::Backend& below,
    const Tensors& to,
    const Tensors& from,
    std::chrono::milliseconds timeout);

} // namespace chip
