// What stands in memory whose data is still to come.
#pragma once

#include <ATen/core/Tensor.h>

namespace chip {

// Fills a tensor of the host with NaN, or with the bytes 0xA5 where its dtype has none: as an index
// that is out of range, and as a number nothing that a computation would give. A bool is true.
void make_stale(const at::Tensor& host);

} // namespace chip
