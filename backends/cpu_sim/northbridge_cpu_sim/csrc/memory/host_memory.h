// The host memory that a block of a device is made of.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

namespace chip {

// Raises OutOfMemoryError where the host has too little. Where the chip was told to, every byte is
// 0xFF, which is NaN in each floating dtype that has one, save float8 in the variants fnuz, and
// memory that was freed cannot be touched again.
c10::DataPtr take_host_memory(size_t bytes);

// Raises OutOfMemoryError: the host has no `bytes` left.
[[noreturn]] void refuse_host_memory(size_t bytes);

// Raises OutOfMemoryError where `error` is the CPU's own, of a kernel that found no memory for its
// result: whoever runs on the chip looks for no words of the CPU's.
void refuse_host_memory_of(const c10::Error& error);

// Whether freed memory is trapped, so that each block has to come from `take_host_memory`.
bool freed_memory_is_trapped() noexcept;

} // namespace chip
