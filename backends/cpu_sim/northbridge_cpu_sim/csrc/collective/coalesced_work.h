// Several calls with one wait for all.
#pragma once

#include "collective/collective_call.h"

namespace chip {

class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<WorkPtr> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  // Holds the tensors of all calls, in order.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override; // of the last call

 private:
  const std::vector<WorkPtr> works_;
};

} // namespace chip
