#include "device/device.h"

#include "acquisition.h"

#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

namespace chip {
namespace {

Settings chip_settings;
std::atomic<bool> used{false};
std::atomic<bool> bad_fork{false};
std::atomic<int64_t> held{-1};
thread_local c10::DeviceIndex current = 0;
thread_local bool thread_prepared = false;

void after_fork_in_child() {
  bad_fork = used.load();
  thread_prepared = false;
  forget_acquired_card();
  if (has_acquirer()) {
    held = -1;
  }
}

void prepare_thread() {
  refuse_bad_fork();
  static std::once_flag watching_forks;
  std::call_once(watching_forks, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
  if (has_acquirer()) {
    held = acquired_card();
  }
  used = true;
  // Autograd passes the backward of a device that is not the CPU to a thread of that device. That
  // costs 100 us, and fails if the process ran a CPU backward before the chip was loaded. The
  // switch belongs to the thread that calls backward, so each thread gets it here.
  if (!chip_settings.autograd_threads) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  thread_prepared = true;
}

void check_exists(int64_t index) {
  const int count = chip_settings.devices;
  TORCH_CHECK(
      index >= 0 && index < count,
      type_name(),
      ":",
      index,
      " was asked for, but there ",
      count == 1 ? "is 1 device (0)" : c10::str("are ", count, " devices (0 to ", count - 1, ")"));
}

} // namespace

const Settings& settings() noexcept {
  return chip_settings;
}

void configure(Settings settings) {
  TORCH_CHECK(
      !in_use(), type_name(), " is already in use in this process, so its settings cannot change");
  TORCH_CHECK_VALUE(
      settings.devices >= 1 && settings.devices <= kMaxDevices,
      settings.devices,
      " devices were asked for, but a simulated chip has 1 to ",
      kMaxDevices);
  TORCH_CHECK_VALUE(
      settings.memory > 0,
      settings.memory,
      " bytes of memory were asked for, but a device needs at least 1");
  chip_settings = std::move(settings);
}

c10::DeviceIndex reachable_count() noexcept {
  return chip_settings.one_per_process || held >= 0 ? 1 : device_count();
}

std::string type_name() {
  return c10::DeviceTypeName(kDeviceType, /*lower_case=*/true);
}

c10::DeviceIndex checked_index(int64_t index) {
  if (index < 0) {
    return current;
  }
  check_exists(index);
  TORCH_CHECK(
      index < reachable_count(),
      type_name(),
      ":",
      index,
      " was asked for, but this process holds one card, which it calls ",
      type_name(),
      ":0");
  return static_cast<c10::DeviceIndex>(index);
}

void hold(int64_t card) {
  check_exists(card);
  if (has_acquirer()) {
    use();
  }
  const auto has = held < 0 && in_use() ? 0 : held.load(); // the first touch takes card 0
  TORCH_CHECK(
      has < 0 || has == card,
      "card ",
      card,
      " of ",
      type_name(),
      " was asked for, but this process already holds card ",
      has,
      ". Fix: use another process");
  TORCH_CHECK(
      held >= 0 || current == 0,
      "card ",
      card,
      " of ",
      type_name(),
      " was asked for as the only one, but this thread's current device is ",
      type_name(),
      ":",
      static_cast<int>(current),
      ". Fix: take the card before any other");
  use();
  held = card;
}

bool within_reach(int64_t index) noexcept {
  return index >= 0 && index < reachable_count();
}

int64_t card(c10::DeviceIndex index) noexcept {
  return held < 0 ? index : held.load();
}

c10::DeviceIndex current_device() noexcept {
  return current;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept {
  auto before = current;
  current = index;
  return before;
}

void use() {
  if (C10_UNLIKELY(!thread_prepared)) {
    prepare_thread();
  }
}

void refuse_bad_fork() {
  TORCH_CHECK(
      !bad_fork,
      type_name(),
      " cannot be used in this process: it was forked from one that had already used ",
      type_name(),
      ". Fix: start it with the 'spawn' or 'forkserver' method instead, or, in the worker of a"
      " DataLoader, leave tensors on the CPU: Lightning moves each batch");
}

bool in_use() noexcept {
  return used && !bad_fork;
}

bool in_bad_fork() noexcept {
  return bad_fork;
}

} // namespace chip
