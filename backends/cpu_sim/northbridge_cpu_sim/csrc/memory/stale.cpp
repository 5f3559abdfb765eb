#include "memory/stale.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <limits>
#include <optional>

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

// The dtype of the same size with which torch can fill a tensor that it cannot fill itself.
std::optional<c10::ScalarType> filled_as(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float4_e2m1fn_x2:
    case c10::ScalarType::Bits1x8:
    case c10::ScalarType::Bits2x4:
    case c10::ScalarType::Bits4x2:
    case c10::ScalarType::Bits8:
      return c10::ScalarType::Byte;
    case c10::ScalarType::Bits16:
      return c10::ScalarType::Short;
    default:
      return std::nullopt;
  }
}

} // namespace

void make_stale(const at::Tensor& host) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (const auto bytes = filled_as(host.scalar_type())) {
    host.view(*bytes).fill_(filler(*bytes));
    return;
  }
  host.fill_(filler(host.scalar_type()));
}

} // namespace chip
