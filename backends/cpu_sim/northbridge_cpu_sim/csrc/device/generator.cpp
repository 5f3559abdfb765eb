#include "device/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace chip {
namespace {

// CUDA's generator advances by at least this. Other offsets can be set, and give other numbers.
constexpr uint64_t kStep = 4;

struct State {
  uint64_t seed;
  uint64_t offset;
};

// Its state is a seed and an offset, 16 bytes, like CUDA's: DTensor gives each shard its own
// offset, and torch.Generator pickles both.
struct DeviceGenerator final : c10::GeneratorImpl {
  explicit DeviceGenerator(c10::DeviceIndex index)
      : GeneratorImpl({kDeviceType, index}, c10::DispatchKeySet(kKey)) {}

  void set_current_seed(uint64_t to) override {
    set({to, 0});
  }
  uint64_t current_seed() const override {
    return get().seed;
  }
  uint64_t seed() override {
    const auto random = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
    set_current_seed(random);
    return random;
  }
  void set_offset(uint64_t offset) override {
    set({get().seed, offset});
  }
  uint64_t get_offset() const override {
    return get().offset;
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK_VALUE(
        state.numel() == sizeof(State),
        "a state of ",
        state.numel(),
        " bytes was given to a generator of ",
        type_name(),
        ", whose states have ",
        sizeof(State),
        ". Fix: use get_rng_state or get_state of a ",
        type_name(),
        " generator gave");
    State to{};
    std::memcpy(&to, state.data(), sizeof(State));
    set(to);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const auto state = get();
    auto bytes = at::empty({sizeof(State)}, at::device(at::kCPU).dtype(at::kByte));
    std::memcpy(bytes.mutable_data_ptr(), &state, sizeof(State));
    return bytes.getIntrusivePtr();
  }

  State take() {
    refuse_bad_fork();
    const std::lock_guard<std::mutex> lock(mutex);
    const auto now = state;
    state.offset += kStep;
    return now;
  }

 private:
  State get() const {
    refuse_bad_fork();
    const std::lock_guard<std::mutex> lock(mutex);
    return state;
  }
  void set(State to) {
    refuse_bad_fork();
    const std::lock_guard<std::mutex> lock(mutex);
    state = to;
  }
  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator(device().index());
    copy->state = get();
    return copy;
  }

  // Kernels that hold the generator's own mutex_ read its state.
  mutable std::mutex mutex;
  State state{c10::default_rng_seed_val, 0};
};

// Steele, Lea and Flood's SplitMix64: near numbers give unrelated words.
uint64_t next_word(uint64_t& state) {
  auto word = state += 0x9e3779b97f4a7c15U;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31);
}

// All 19937 bits follow from both numbers; torch's own seeding would use 32 bits of one. The first
// draw after a seed equals the CPU's.
at::mt19937 twister(State from) {
  if (from.offset == 0) {
    return at::mt19937(from.seed);
  }
  auto words = from.offset;
  words = next_word(words) ^ from.seed;
  at::mt19937_data_pod data{};
  data.seed_ = from.seed;
  data.seeded_ = true;
  data.left_ = 1;
  data.next_ = 0;
  for (auto& word : data.state_) {
    word = static_cast<uint32_t>(next_word(words));
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

} // namespace

at::Generator make_generator(c10::DeviceIndex index) {
  refuse_bad_fork();
  return at::make_generator<DeviceGenerator>(checked_index(index));
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

at::Generator engine(const at::Generator& generator) {
  TORCH_CHECK(
      generator.device().type() == kDeviceType,
      "Expected a '",
      type_name(),
      "' device type for generator but found '",
      generator.device().type(),
      "'");
  auto cpu = at::make_generator<at::CPUGeneratorImpl>();
  cpu.get<at::CPUGeneratorImpl>()->set_engine(
      twister(static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->take()));
  return cpu;
}

} // namespace chip
