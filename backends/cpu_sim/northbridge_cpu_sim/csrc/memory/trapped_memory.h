// Host memory that traps whoever touches it after it was freed.
#pragma once

#include <c10/core/Allocator.h>

namespace chip {

// Whole pages. Once freed, they are kept out of everybody's reach until 4096 other blocks have been
// freed; who touches them meanwhile is told so on stderr, and ends by SIGSEGV.
c10::DataPtr take_trapped_memory(size_t bytes);

} // namespace chip
