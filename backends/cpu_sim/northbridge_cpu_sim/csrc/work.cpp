#include "work.h"

#include "chip.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/util/Exception.h>

namespace chip {
namespace {

std::vector<c10::Device> devices_of(const c10::IValue& outputs) {
  std::vector<c10::Device> devices;
  outputs.visit([&devices](const c10::IValue& value) {
    if (value.isTensor() && devices.empty() && value.toTensor().device().type() == kDeviceType) {
      devices.push_back(value.toTensor().device());
    }
    return false;
  });
  return devices;
}

std::exception_ptr named(const std::exception_ptr& error, const std::string& call) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& reason) {
    return std::make_exception_ptr(
        c10::DistBackendError(
            {__func__, __FILE__, __LINE__}, c10::str(call, " failed: ", reason.what())));
  }
}

} // namespace

ChipWork::ChipWork(
    c10::intrusive_ptr<c10d::Work> gloo,
    std::string call,
    int rank,
    c10::IValue outputs,
    CollectiveFaults faults)
    : Work(rank, gloo->retrieveOpType()),
      gloo_(std::move(gloo)),
      call_(std::move(call)),
      outputs_(std::move(outputs)),
      faults_(std::move(faults)) {}

bool ChipWork::isCompleted() {
  return gloo_->isCompleted();
}

bool ChipWork::isSuccess() const {
  return gloo_->isSuccess();
}

std::exception_ptr ChipWork::exception() const {
  const auto error = gloo_->exception();
  return error ? named(error, call_) : error;
}

int ChipWork::sourceRank() const {
  return gloo_->sourceRank();
}

std::vector<at::Tensor> ChipWork::result() {
  TORCH_CHECK(
      isCompleted(),
      "the result of ",
      call_,
      " was asked for before it was done; wait for it first");
  faults_.meet_results();
  std::vector<at::Tensor> tensors;
  outputs_.visit([&tensors](const c10::IValue& value) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    }
    return false;
  });
  return tensors;
}

void ChipWork::synchronize() {
  wait(kNoTimeout);
}

bool ChipWork::wait(std::chrono::milliseconds timeout) {
  const auto done = wait_for_gloo(timeout);
  faults_.meet_results();
  return done;
}

bool ChipWork::wait_for_gloo(std::chrono::milliseconds timeout) {
  try {
    return gloo_->wait(timeout);
  } catch (...) {
    std::rethrow_exception(named(std::current_exception(), call_));
  }
}

void ChipWork::abort() {
  gloo_->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> ChipWork::getFuture() {
  std::lock_guard<std::mutex> lock(future_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(outputs_.type(), devices_of(outputs_));
    // Gloo's future holds the CPU aliases; ours is done when it is, with the device tensors.
    gloo_->getFuture()->addCallback(
        [future = future_, outputs = outputs_, call = call_, faults = faults_](
            c10::ivalue::Future& gloo) {
          if (gloo.hasError()) {
            future->setError(named(gloo.exception_ptr(), call));
          } else {
            faults.meet_results();
            future->markCompleted(outputs);
          }
        });
  }
  return future_;
}

uint64_t ChipWork::getSequencenumber() const {
  return gloo_->getSequencenumber();
}

} // namespace chip
