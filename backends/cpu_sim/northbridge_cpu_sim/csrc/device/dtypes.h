// The dtypes that the chip lacks, and those that it holds as narrower ones: their results are
// rounded, or wrap, like the narrower dtype's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace chip {

// `lacks` maps a dtype to the sentence of its error.
void configure_dtypes(
    std::map<c10::ScalarType, std::string> lacks,
    std::map<c10::ScalarType, c10::ScalarType> held_as);

namespace detail {
extern uint64_t lacking; // a bit for each dtype, as in `held`
extern uint64_t held;
[[noreturn]] void refuse(c10::ScalarType dtype);
inline bool has(uint64_t bits, c10::ScalarType dtype) noexcept {
  return C10_UNLIKELY((bits >> static_cast<unsigned>(dtype) & 1) != 0);
}
} // namespace detail

// Raises RuntimeError if the chip lacks the dtype.
inline void check_dtype(c10::ScalarType dtype) {
  if (detail::has(detail::lacking, dtype)) {
    detail::refuse(dtype);
  }
}

inline bool is_held_narrower(c10::ScalarType dtype) noexcept {
  return detail::has(detail::held, dtype);
}

// The dtype as which this one is held: usually the same.
c10::ScalarType held_as(c10::ScalarType dtype);

// Changes the values in place to values that the chip can hold. The tensor is on the CPU.
void narrow(const at::Tensor& host);

// Raises RuntimeError if a copy of these integers to a tensor of `dtype` would change them.
void check_fits(const at::Tensor& host, c10::ScalarType dtype);

} // namespace chip
