#include "collective/work.h"

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

// Completes a future whose tensors need a wait for a place: users of the future wait for the stream
// that is current when it is completed.
void complete_after(const Place& place, c10::ivalue::Future& future, const c10::IValue& value) {
  const auto stream = future_stream(place.index);
  wait_for(stream, place);
  const auto before = exchange_stream(stream);
  future.markCompleted(value);
  exchange_stream(before);
}

void complete(
    c10::ivalue::Future& future,
    const c10::IValue& outputs,
    CallRecord& record,
    const CollectiveFaults& faults,
    const std::optional<Place>& effect,
    const std::exception_ptr& error) {
  if (error) {
    future.setError(record.failed(error));
    return;
  }
  record.finish();
  if (effect) {
    complete_after(*effect, future, outputs);
    return;
  }
  try {
    faults.meet_results();
  } catch (...) {
    future.setError(std::current_exception());
    return;
  }
  future.markCompleted(outputs);
}

} // namespace

ChipWork::ChipWork(
    WorkPtr below,
    std::shared_ptr<CallRecord> record,
    c10::IValue outputs,
    CollectiveFaults faults,
    std::shared_ptr<Completions> completions)
    : Work(record->group().facts.rank, below->retrieveOpType()),
      below_(std::move(below)),
      record_(std::move(record)),
      outputs_(std::move(outputs)),
      faults_(std::move(faults)),
      completions_(std::move(completions)) {}

bool ChipWork::isCompleted() {
  completions_->let_next_run();
  const auto future = future_if_asked_for();
  if (!below_->isCompleted() || (future && !future->completed())) {
    return false;
  }
  if (effect_) {
    reach(*effect_);
  }
  return true;
}

bool ChipWork::isSuccess() const {
  return below_->isSuccess();
}

std::exception_ptr ChipWork::exception() const {
  const auto error = below_->exception();
  return error ? record_->failed(error) : error;
}

int ChipWork::sourceRank() const {
  return below_->sourceRank();
}

std::vector<at::Tensor> ChipWork::result() {
  TORCH_CHECK(
      isCompleted(),
      "the result of ",
      record_->beginning(),
      " was asked for before it was done. Fix: wait for it first");
  if (!effect_) {
    faults_.meet_results();
  }
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
  const bool done = wait_below(timeout);
  if (effect_) {
    wait_for(current_stream(effect_->index), *effect_);
  } else {
    faults_.meet_results();
  }
  return done;
}

Place ChipWork::defer_to(const c10::Stream& stream, std::function<void()> effect) {
  const auto self = c10::intrusive_ptr<ChipWork>::reclaim_copy(this);
  Deferred work;
  work.effect = [self, effect = std::move(effect)](bool) {
    if (self->has_told_failure_) {
      return; // the tensors are unchanged
    }
    // The work below wakes its waiters only after the continuations of its future, which may wait
    // for this effect; the future wakes them before.
    const auto done = self->below_->getFuture();
    done->wait();
    if (done->hasError()) {
      self->tell(done->exception_ptr());
    }
    self->record_->finish();
    effect();
    self->faults_.meet_results();
  };
  defer(stream, std::move(work));
  effect_ = place_of(stream);
  return *effect_;
}

bool ChipWork::wait_below(std::chrono::milliseconds timeout) {
  completions_->let_next_run();
  bool done = false;
  try {
    done = below_->wait(timeout);
  } catch (...) {
    tell(std::current_exception());
  }
  record_->finish();
  if (const auto future = future_if_asked_for()) {
    future->wait(); // a thread that has waited for the work may read its value
  }
  return done;
}

c10::intrusive_ptr<c10::ivalue::Future> ChipWork::future_if_asked_for() {
  const std::lock_guard<std::mutex> lock(future_mutex_);
  return future_;
}

void ChipWork::tell(const std::exception_ptr& error) {
  const auto named = record_->failed(error);
  has_told_failure_ = record_->has_failed();
  std::rethrow_exception(named);
}

void ChipWork::abort() {
  below_->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> ChipWork::getFuture() {
  completions_->let_next_run();
  const std::lock_guard<std::mutex> lock(future_mutex_);
  if (!future_) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(outputs_.type(), devices_of(outputs_));
    // The future below holds CPU aliases; ours is done at the same time, with the device tensors.
    const auto below = below_->getFuture();
    const auto follow = [future, outputs = outputs_, record = record_, faults = faults_,
                         effect = effect_](c10::ivalue::Future& done) {
      const auto error = done.hasError() ? done.exception_ptr() : nullptr;
      complete(*future, outputs, *record, faults, effect, error);
    };
    if (below->completed()) {
      follow(*below); // it has no continuation yet
    } else {
      below->addCallback([follow, below, completions = completions_](c10::ivalue::Future&) {
        completions->add([follow, below] { follow(*below); });
      });
    }
    future_ = std::move(future);
  }
  return future_;
}

uint64_t ChipWork::getSequencenumber() const {
  return record_->line().number;
}

} // namespace chip
