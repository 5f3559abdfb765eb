#include "acquisition.h"

#include "bindings.h"
#include "device/device.h"
#include "device/released_gil.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace chip {
namespace {

// Never destroyed: threads of torch outlive the interpreter.
PyObject* acquirer = nullptr;
std::mutex* acquisition_mutex = new std::mutex;
std::atomic<int64_t> taken{-1};
thread_local bool acquiring = false;

std::string message_of(const py::error_already_set& error) {
  const auto text = std::string(py::str(error.value()));
  return text.empty() ? std::string(py::str(error.type().attr("__name__"))) : text;
}

// Returns the error, or nothing if the function returned a card.
std::optional<std::string> call() {
  const py::gil_scoped_acquire gil;
  acquiring = true;
  std::optional<std::string> failure;
  try {
    const auto given = py::cast<int64_t>(py::reinterpret_borrow<py::object>(acquirer)());
    if (given >= 0 && given < device_count()) {
      taken = given;
    } else {
      failure = c10::str(
          "the function that takes a card returned ", given, ", and there are ",
          settings().devices);
    }
  } catch (const py::error_already_set& error) {
    failure = message_of(error);
  } catch (const py::cast_error&) {
    failure = "the function that takes a card did not return its number";
  }
  acquiring = false;
  return failure;
}

} // namespace

void set_acquirer(const py::object& function) {
  acquirer = function.is_none() ? nullptr : function.inc_ref().ptr();
}

bool has_acquirer() noexcept {
  return acquirer != nullptr;
}

int64_t acquired_card() {
  if (taken >= 0) {
    return taken;
  }
  TORCH_CHECK(
      !acquiring, "the function that takes a card has touched the device before it had one");
  // The GIL must be free during the wait: the thread that holds the lock needs it.
  const ReleasedGil released;
  const std::lock_guard<std::mutex> lock(*acquisition_mutex);
  if (taken < 0) {
    const auto failure = call();
    TORCH_CHECK(!failure, *failure);
  }
  return taken;
}

void forget_acquired_card() {
  taken = -1;
  acquisition_mutex = new std::mutex; // a thread that is not in the child may hold the old one
}

} // namespace chip
