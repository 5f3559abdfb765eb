#include "device/dtypes.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/aminmax.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/Exception.h>

#include <limits>

namespace chip {

namespace detail {
uint64_t lacking = 0;
uint64_t held = 0;
} // namespace detail

namespace {

using c10::ScalarType;

static_assert(c10::NumScalarTypes <= 64, "a bit for each dtype");

std::map<ScalarType, std::string> sentences;
std::map<ScalarType, ScalarType> narrower;

template <typename Map>
uint64_t bits_of(const Map& map) {
  uint64_t bits = 0;
  for (const auto& [dtype, _] : map) {
    bits |= uint64_t{1} << static_cast<unsigned>(dtype);
  }
  return bits;
}

std::pair<int64_t, int64_t> range_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Int:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case ScalarType::Short:
      return {std::numeric_limits<int16_t>::min(), std::numeric_limits<int16_t>::max()};
    default:
      return {std::numeric_limits<int8_t>::min(), std::numeric_limits<int8_t>::max()};
  }
}

// Each element once: an expanded tensor repeats elements, and cannot be written.
at::Tensor distinct(const at::Tensor& host) {
  if (at::has_internal_overlap(host) != at::MemOverlap::Yes) {
    return host;
  }
  auto sizes = host.sizes().vec();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (host.strides()[i] == 0) {
      sizes[i] = 1;
    }
  }
  return host.as_strided(sizes, host.strides());
}

} // namespace

void configure_dtypes(
    std::map<ScalarType, std::string> lacks, std::map<ScalarType, ScalarType> held_as) {
  detail::lacking = bits_of(lacks);
  detail::held = bits_of(held_as);
  sentences = std::move(lacks);
  narrower = std::move(held_as);
}

void detail::refuse(ScalarType dtype) {
  TORCH_CHECK(false, sentences.at(dtype));
}

ScalarType held_as(ScalarType dtype) {
  return is_held_narrower(dtype) ? narrower.at(dtype) : dtype;
}

void narrow(const at::Tensor& host) {
  if (host.numel() == 0) {
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto elements = distinct(host);
  elements.copy_(elements.to(held_as(host.scalar_type())));
}

void check_fits(const at::Tensor& host, ScalarType dtype) {
  if (!c10::isIntegralType(dtype, /*includeBool=*/false) || host.numel() == 0) {
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto [least, most] = at::aminmax(host.to(dtype));
  const auto narrow = held_as(dtype);
  const auto [low, high] = range_of(narrow);
  TORCH_CHECK(
      least.item<int64_t>() >= low && most.item<int64_t>() <= high,
      "Error when trying to cast ",
      dtype,
      " to ",
      narrow,
      ", Input values range [",
      least.item<int64_t>(),
      ", ",
      most.item<int64_t>(),
      "] exceeds ",
      narrow,
      " range [",
      low,
      ", ",
      high,
      "]");
}

} // namespace chip
