#include "stale.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <limits>

namespace chip {
namespace {

at::Scalar filler(c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype) || c10::isComplexType(dtype)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (dtype == c10::ScalarType::Bool) {
    return true;
  }
  const int64_t pattern = static_cast<int64_t>(0xA5A5A5A5A5A5A5A5);
  switch (c10::elementSize(dtype)) {
    case 1:
      return c10::isSignedType(dtype) ? at::Scalar(static_cast<int8_t>(pattern))
                                      : at::Scalar(static_cast<uint8_t>(pattern));
    case 2:
      return c10::isSignedType(dtype) ? at::Scalar(static_cast<int16_t>(pattern))
                                      : at::Scalar(static_cast<int64_t>(pattern & 0xFFFF));
    case 4:
      return c10::isSignedType(dtype) ? at::Scalar(static_cast<int32_t>(pattern))
                                      : at::Scalar(static_cast<int64_t>(pattern & 0xFFFFFFFF));
    default:
      return pattern;
  }
}

} // namespace

void make_stale(const at::Tensor& host) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  host.fill_(filler(host.scalar_type()));
}

} // namespace chip
