// Which dtypes the chip lacks, and which it holds as a narrower one: what it computes in those is
// rounded, or wraps, as the narrower one would.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace chip {

// `lacks` maps a dtype to the sentence that refuses it.
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

// Raises RuntimeError where no tensor of this dtype can be on the chip.
inline void check_dtype(c10::ScalarType dtype) {
  if (detail::has(detail::lacking, dtype)) {
    detail::refuse(dtype);
  }
}

inline bool is_held_narrower(c10::ScalarType dtype) noexcept {
  return detail::has(detail::held, dtype);
}

// The dtype that this one is held as: itself, for most.
c10::ScalarType held_as(c10::ScalarType dtype);

// Makes the values what the chip can hold, in place. The tensor is on the CPU.
void narrow(const at::Tensor& host);

// Raises RuntimeError where a copy of these integers to a tensor of `dtype` would change them.
void check_fits(const at::Tensor& host, c10::ScalarType dtype);

} // namespace chip
