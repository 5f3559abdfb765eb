// The parts of a call's tensors that go to the ranks, or come from them, in Gloo's form.
#pragma once

#include "collective/collective_call.h"

#include <chrono>

namespace chip {

// Gloo compares the sizes of a whole and its parts by dimension. NCCL counts elements, and so
// accepts stacked parts too. These convert both to Gloo's form.
at::Tensor in_a_row(const at::Tensor& host);
Tensors in_rows(const Tensors& host);

// True if these are the parts of all ranks, and their sizes differ.
bool have_own_sizes(const Tensors& parts, int ranks);

// Sends part i to rank i, and waits for theirs. Gloo only has calls for parts of one size, and one
// for elements in a row.
WorkPtr exchange_parts(
    c10d::Backend& below,
    const Tensors& to,
    const Tensors& from,
    std::chrono::milliseconds timeout);

} // namespace chip
