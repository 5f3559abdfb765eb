// One pending call: the work below, on CPU aliases, and its device tensors.
#pragma once

#include "collective/call_record.h"
#include "collective/collective_call.h"
#include "collective/completions.h"
#include "faults/faults.h"
#include "streams/streams.h"

#include <atomic>

namespace chip {

class ChipWork final : public c10d::Work {
 public:
  // `record` names the errors; `outputs` is the value of result() and the future, which is
  // completed by the group's `completions`.
  ChipWork(
      WorkPtr below,
      std::shared_ptr<CallRecord> record,
      c10::IValue outputs,
      CollectiveFaults faults,
      std::shared_ptr<Completions> completions);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;

  // Lets the call take effect by `effect` when `stream` comes to it, and not when the library is
  // done: a thread that waits for the work makes its own stream wait for that one. Returns the
  // place after it.
  Place defer_to(const c10::Stream& stream, std::function<void()> effect);

  // Waits only for the library, and for the future's value if it was requested: planned faults of
  // the results come later.
  bool wait_below(std::chrono::milliseconds timeout);

 private:
  [[noreturn]] void tell(const std::exception_ptr& error);
  c10::intrusive_ptr<c10::ivalue::Future> future_if_asked_for();

  const WorkPtr below_;
  const std::shared_ptr<CallRecord> record_;
  const c10::IValue outputs_;
  const CollectiveFaults faults_;
  const std::shared_ptr<Completions> completions_;
  std::atomic<bool> has_told_failure_{false};
  std::optional<Place> effect_; // if streams are deferred: the place after the call
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace chip
