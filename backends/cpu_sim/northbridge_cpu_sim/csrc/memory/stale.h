// The content of memory whose data has not arrived.
#pragma once

#include <ATen/core/Tensor.h>

namespace chip {

// Fills a host tensor with NaN, or with the bytes 0xA5 if its dtype has no NaN: an index out of
// range, and a number that computations do not produce. A bool is true.
void make_stale(const at::Tensor& host);

} // namespace chip
