#include <Python.h>

#include "collective.h"

#include "alias.h"
#include "work.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <mutex>

namespace chip {
namespace {

using at::Tensor;
using c10d::Work;
using Tensors = std::vector<Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<Work>;
using GlooPtr = c10::intrusive_ptr<c10d::Backend>;

Tensor host(const Tensor& tensor) {
  return owning_host_alias(tensor);
}

Tensors host(const Tensors& tensors) {
  Tensors aliases;
  aliases.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    aliases.push_back(host(tensor));
  }
  return aliases;
}

TensorLists host(const TensorLists& lists) {
  TensorLists aliases;
  aliases.reserve(lists.size());
  for (const auto& list : lists) {
    aliases.push_back(host(list));
  }
  return aliases;
}

// As torch's own backends: one list of outputs is flat in the future.
c10::IValue outputs(const TensorLists& lists) {
  return lists.size() == 1 ? c10::IValue(lists[0]) : c10::IValue(lists);
}

class Collective final : public c10d::Backend {
 public:
  Collective(GlooPtr gloo, std::string name)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), name_(std::move(name)) {}

  const std::string getBackendName() const override {
    return name_;
  }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return gloo()->getBackendOptions();
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    gloo()->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override {
    gloo()->setSequenceNumberForGroup();
  }
  uint64_t getSequenceNumberForGroup() override {
    return gloo()->getSequenceNumberForGroup();
  }
  void abort() override {
    if (const auto gloo = gloo_if_up()) {
      gloo->abort();
    }
  }
  void shutdown() override {
    // Gloo's threads may drop the last reference to a tensor of Python's, for which they need the
    // interpreter: one that still waits for it when it ends takes the process down.
    auto* const held = PyGILState_Check() ? PyEval_SaveThread() : nullptr;
    GlooPtr last;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      last.swap(gloo_);
    }
    last.reset(); // waits for its threads
    if (held != nullptr) {
      PyEval_RestoreThread(held);
    }
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto aliases = host(tensors);
    return under_way(gloo()->broadcast(aliases, options), "broadcast", tensors);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    check_reduction(options.reduceOp, "all_reduce");
    auto aliases = host(tensors);
    return under_way(gloo()->allreduce(aliases, options), "all_reduce", tensors);
  }

  WorkPtr allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    check_reduction(options.reduceOp, "all_reduce_coalesced");
    auto aliases = host(tensors);
    return under_way(gloo()->allreduce_coalesced(aliases, options), "all_reduce_coalesced", tensors);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    check_reduction(options.reduceOp, "reduce");
    auto aliases = host(tensors);
    return under_way(gloo()->reduce(aliases, options), "reduce", tensors);
  }

  WorkPtr allgather(
      TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(
        gloo()->allgather(to_aliases, from_aliases, options), "all_gather", outputs(to));
  }

  WorkPtr allgather_coalesced(
      TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(
        gloo()->allgather_coalesced(to_aliases, from_aliases, options),
        "all_gather_coalesced",
        outputs(to));
  }

  WorkPtr _allgather_base(
      Tensor& to, Tensor& from, const c10d::AllgatherOptions& options) override {
    auto to_alias = host(to);
    auto from_alias = host(from);
    return under_way(
        gloo()->_allgather_base(to_alias, from_alias, options),
        "all_gather_into_tensor",
        Tensors{to});
  }

  WorkPtr allgather_into_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(
        gloo()->allgather_into_tensor_coalesced(to_aliases, from_aliases, options),
        "all_gather_into_tensor_coalesced",
        to);
  }

  WorkPtr gather(TensorLists& to, Tensors& from, const c10d::GatherOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(gloo()->gather(to_aliases, from_aliases, options), "gather", outputs(to));
  }

  WorkPtr scatter(Tensors& to, TensorLists& from, const c10d::ScatterOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(gloo()->scatter(to_aliases, from_aliases, options), "scatter", to);
  }

  WorkPtr reduce_scatter(
      Tensors& to, TensorLists& from, const c10d::ReduceScatterOptions& options) override {
    check_reduction(options.reduceOp, "reduce_scatter");
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(
        gloo()->reduce_scatter(to_aliases, from_aliases, options), "reduce_scatter", to);
  }

  WorkPtr _reduce_scatter_base(
      Tensor& to, Tensor& from, const c10d::ReduceScatterOptions& options) override {
    check_reduction(options.reduceOp, "reduce_scatter_tensor");
    auto to_alias = host(to);
    auto from_alias = host(from);
    return under_way(
        gloo()->_reduce_scatter_base(to_alias, from_alias, options),
        "reduce_scatter_tensor",
        Tensors{to});
  }

  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::ReduceScatterOptions& options) override {
    check_reduction(options.reduceOp, "reduce_scatter_tensor_coalesced");
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(
        gloo()->reduce_scatter_tensor_coalesced(to_aliases, from_aliases, options),
        "reduce_scatter_tensor_coalesced",
        to);
  }

  WorkPtr alltoall_base(
      Tensor& to,
      Tensor& from,
      std::vector<int64_t>& to_sizes,
      std::vector<int64_t>& from_sizes,
      const c10d::AllToAllOptions& options) override {
    auto to_alias = host(to);
    auto from_alias = host(from);
    return under_way(
        gloo()->alltoall_base(to_alias, from_alias, to_sizes, from_sizes, options),
        "all_to_all_single",
        Tensors{to});
  }

  WorkPtr alltoall(Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) override {
    auto to_aliases = host(to);
    auto from_aliases = host(from);
    return under_way(gloo()->alltoall(to_aliases, from_aliases, options), "all_to_all", to);
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    auto aliases = host(tensors);
    return under_way(gloo()->send(aliases, to, tag), "send", tensors);
  }

  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    auto aliases = host(tensors);
    return under_way(gloo()->recv(aliases, from, tag), "recv", tensors);
  }

  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    auto aliases = host(tensors);
    return under_way(gloo()->recvAnysource(aliases, tag), "recv", tensors);
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    auto on_host = options;
    on_host.device_ids.clear();
    on_host.device.reset();
    return under_way(gloo()->barrier(on_host), "barrier", Tensors{});
  }

  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    gloo()->monitoredBarrier(options, wait_all_ranks);
  }

 private:
  // A reference of the caller's own: another thread may shut the group down meanwhile.
  GlooPtr gloo_if_up() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return gloo_;
  }
  GlooPtr gloo() const {
    auto gloo = gloo_if_up();
    TORCH_CHECK(gloo, name_, " has been shut down; make another process group");
    return gloo;
  }

  WorkPtr under_way(WorkPtr work, const char* call, c10::IValue outputs) {
    return c10::make_intrusive<ChipWork>(
        std::move(work),
        c10::str(name_, "'s ", call, " on rank ", rank_, " of ", size_),
        rank_,
        std::move(outputs));
  }

  void check_reduction(const c10d::ReduceOp& reduction, const char* call) const {
    TORCH_CHECK(
        reduction != c10d::ReduceOp::AVG,
        name_,
        "'s ",
        call,
        " was asked for the average (ReduceOp.AVG), which it does not have; ask for the sum "
        "(ReduceOp.SUM) and divide it by the ",
        size_,
        " ranks");
  }

  mutable std::mutex mutex_; // of gloo_
  GlooPtr gloo_; // null once shut down
  const std::string name_;
};

} // namespace

c10::intrusive_ptr<c10d::Backend> make_collective(
    c10::intrusive_ptr<c10d::Backend> gloo, std::string name) {
  return c10::make_intrusive<Collective>(std::move(gloo), std::move(name));
}

} // namespace chip
