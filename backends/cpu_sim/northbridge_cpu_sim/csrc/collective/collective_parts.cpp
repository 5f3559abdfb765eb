#include "device/released_gil.h" // first: it includes Python.h

#include "collective/collective_parts.h"

#include "collective/call_signature.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

namespace chip {

at::Tensor in_a_row(const at::Tensor& host) {
  return host.is_contiguous() ? host.view({-1}) : host;
}

Tensors in_rows(const Tensors& host) {
  Tensors rows;
  for (const auto& tensor : host) {
    rows.push_back(in_a_row(tensor));
  }
  return rows;
}

bool have_own_sizes(const Tensors& parts, int ranks) {
  const auto differs = [&parts](const at::Tensor& part) {
    return !part.sizes().equals(parts[0].sizes());
  };
  return parts.size() == static_cast<size_t>(ranks) &&
      std::any_of(parts.begin(), parts.end(), differs);
}

WorkPtr exchange_parts(
    c10d::Backend& below,
    const Tensors& to,
    const Tensors& from,
    std::chrono::milliseconds timeout) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Tensors parts;
  for (const auto& part : from) {
    parts.push_back(part.reshape({-1}));
  }
  auto sent = at::cat(parts);
  auto from_sizes = elements_of(from), to_sizes = elements_of(to);
  auto arrived =
      at::empty({std::accumulate(to_sizes.begin(), to_sizes.end(), int64_t{0})}, sent.options());
  c10d::AllToAllOptions options;
  options.timeout = timeout;
  const auto work = below.alltoall_base(arrived, sent, to_sizes, from_sizes, options);
  {
    const ReleasedGil released; // Gloo's threads may need it
    work->wait(kNoTimeout);
  }
  int64_t at = 0;
  for (const auto& part : to) {
    part.copy_(arrived.narrow(0, at, part.numel()).view_as(part));
    at += part.numel();
  }
  return work;
}

} // namespace chip
