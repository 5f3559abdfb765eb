// One collective under way: Gloo's work on CPU aliases, and the device tensors it stands for.
#pragma once

#include "faults.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <string>

namespace chip {

class ChipWork final : public c10d::Work {
 public:
  // `call` is what errors call it; `outputs` is what result() and the future hold.
  ChipWork(
      c10::intrusive_ptr<c10d::Work> gloo,
      std::string call,
      int rank,
      c10::IValue outputs,
      CollectiveFaults faults);

  // As wait(), but before what is planned for the results.
  bool wait_for_gloo(std::chrono::milliseconds timeout);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;

 private:
  const c10::intrusive_ptr<c10d::Work> gloo_;
  const std::string call_;
  const c10::IValue outputs_;
  const CollectiveFaults faults_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace chip
