#include "collective/coalesced_work.h"

#include <ATen/core/ivalue_inl.h>

#include <algorithm>

namespace chip {
namespace {

void add_tensors(const c10::IValue& value, c10::List<at::Tensor>& to) {
  value.visit([&to](const c10::IValue& inner) {
    if (inner.isTensor()) {
      to.push_back(inner.toTensor());
    }
    return false;
  });
}

} // namespace

CoalescedWork::CoalescedWork(int rank, std::vector<WorkPtr> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(
      works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(
      works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (auto error = work->exception()) {
      return error;
    }
  }
  return nullptr;
}

std::vector<at::Tensor> CoalescedWork::result() {
  Tensors tensors;
  for (const auto& work : works_) {
    const auto more = work->result();
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

void CoalescedWork::synchronize() {
  wait(kNoTimeout);
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  return std::all_of(works_.begin(), works_.end(), [timeout](const WorkPtr& work) {
    return work->wait(timeout);
  });
}

void CoalescedWork::abort() {
  for (const auto& work : works_) {
    work->abort();
  }
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::AnyType::get()));
  for (const auto& work : works_) {
    futures.push_back(work->getFuture());
  }
  return c10::collectAll(futures)->then(
      [](c10::ivalue::Future& all) {
        c10::List<at::Tensor> tensors;
        for (const c10::IValue& each : all.value().toListRef()) {
          add_tensors(each.toFuture()->value(), tensors);
        }
        return c10::IValue(tensors);
      },
      c10::ListType::ofTensors());
}

uint64_t CoalescedWork::getSequencenumber() const {
  return works_.empty() ? 0 : works_.back()->getSequencenumber();
}

} // namespace chip
