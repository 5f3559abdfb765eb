#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <mutex>

namespace chip {
namespace {

// A generator of the device keeps a CPU generator inside, because CPU kernels accept no other.
struct DeviceGenerator final : c10::GeneratorImpl {
  DeviceGenerator(c10::DeviceIndex index, at::Generator cpu)
      : GeneratorImpl({kDeviceType, index}, c10::DispatchKeySet(kKey)), engine(std::move(cpu)) {}

  void set_current_seed(uint64_t seed) override {
    engine.set_current_seed(seed);
  }
  uint64_t current_seed() const override {
    return engine.current_seed();
  }
  uint64_t seed() override {
    return engine.seed();
  }
  void set_offset(uint64_t offset) override {
    engine.set_offset(offset); // the CPU's refusal: a Mersenne twister has no offset
  }
  uint64_t get_offset() const override {
    return engine.get_offset();
  }
  void set_state(const c10::TensorImpl& state) override {
    engine.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return engine.unsafeGetGeneratorImpl()->get_state();
  }

  at::Generator engine;

 private:
  DeviceGenerator* clone_impl() const override {
    return new DeviceGenerator(device().index(), engine.clone());
  }
};

} // namespace

at::Generator make_generator(c10::DeviceIndex index) {
  return at::make_generator<DeviceGenerator>(
      checked_index(index), at::make_generator<at::CPUGeneratorImpl>(c10::default_rng_seed_val));
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::mutex mutex;
  static std::array<at::Generator, kMaxDevices> generators;
  const auto checked = checked_index(index);
  std::lock_guard<std::mutex> lock(mutex);
  auto& generator = generators[checked];
  if (!generator.defined()) {
    generator = make_generator(checked);
  }
  return generator;
}

const at::Generator& engine(const at::Generator& generator) {
  TORCH_CHECK(
      generator.device().type() == kDeviceType,
      "Expected a '",
      type_name(),
      "' device type for generator but found '",
      generator.device().type(),
      "'");
  return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->engine;
}

} // namespace chip
