#include "device/hooks.h"

#include "streams/streams.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>

namespace chip {
namespace {

struct PrivateUse1Hooks final : Hooks<at::PrivateUse1HooksInterface> {
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    CurrentDevice on(storage.device().index());
    catch_up(current_device()); // writes to the old memory would be lost with it
    // It allocates the new memory with the storage's own allocator, which is the chip's.
    const auto device = storage.device();
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), bytes);
    if (bytes == 0) { // torch leaves an empty storage on the CPU, and FSDP empties those that it shards
      storage.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, device));
    }
  }
};

[[maybe_unused]] const bool registered =
    (at::RegisterPrivateUse1HooksInterface(new PrivateUse1Hooks), true);

} // namespace
} // namespace chip
