#include "released_gil.h" // first: it includes Python.h

#include "collective.h"

#include "collective_arguments.h"
#include "faults.h"
#include "work.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <atomic>
#include <mutex>

namespace chip {
namespace {

using at::Tensor;
using c10d::Work;
using Tensors = std::vector<Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<Work>;
using GlooPtr = c10::intrusive_ptr<c10d::Backend>;

// As torch's own backends: one list of outputs is flat in the future.
c10::IValue outputs(const TensorLists& lists) {
  return lists.size() == 1 ? c10::IValue(lists[0]) : c10::IValue(lists);
}

class Collective final : public c10d::Backend {
 public:
  Collective(GlooPtr gloo, std::string name, CollectiveLimits limits)
      : Backend(gloo->getRank(), gloo->getSize()),
        gloo_(std::move(gloo)),
        name_(std::move(name)),
        limits_(std::move(limits)) {}

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
    const ReleasedGil released;
    GlooPtr last;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      last.swap(gloo_);
    }
    last.reset(); // waits for its threads
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto aliases = host("broadcast", tensors);
    return under_way("broadcast", tensors, [&] { return gloo()->broadcast(aliases, options); });
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto mine = reducible("all_reduce", options.reduceOp, tensors);
    return cast_back(
        mine, under_way("all_reduce", tensors, [&] {
          return gloo()->allreduce(mine.tensors(), options);
        }));
  }

  WorkPtr allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    auto mine = reducible("all_reduce_coalesced", options.reduceOp, tensors);
    return cast_back(
        mine,
        under_way("all_reduce_coalesced", tensors, [&] {
          return gloo()->allreduce_coalesced(mine.tensors(), options);
        }));
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    auto mine = reducible("reduce", options.reduceOp, tensors);
    auto work = under_way("reduce", tensors, [&] {
      return gloo()->reduce(mine.tensors(), options);
    });
    return rank_ == options.rootRank ? cast_back(mine, std::move(work)) : work;
  }

  WorkPtr allgather(
      TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host("all_gather", to);
    auto from_aliases = host("all_gather", from);
    return under_way("all_gather", outputs(to), [&] {
      return gloo()->allgather(to_aliases, from_aliases, options);
    });
  }

  WorkPtr allgather_coalesced(
      TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host("all_gather_coalesced", to);
    auto from_aliases = host("all_gather_coalesced", from);
    return under_way("all_gather_coalesced", outputs(to), [&] {
      return gloo()->allgather_coalesced(to_aliases, from_aliases, options);
    });
  }

  WorkPtr _allgather_base(
      Tensor& to, Tensor& from, const c10d::AllgatherOptions& options) override {
    auto to_alias = host("all_gather_into_tensor", to);
    auto from_alias = host("all_gather_into_tensor", from);
    return under_way("all_gather_into_tensor", Tensors{to}, [&] {
      return gloo()->_allgather_base(to_alias, from_alias, options);
    });
  }

  WorkPtr allgather_into_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    auto to_aliases = host("all_gather_into_tensor_coalesced", to);
    auto from_aliases = host("all_gather_into_tensor_coalesced", from);
    return under_way("all_gather_into_tensor_coalesced", to, [&] {
      return gloo()->allgather_into_tensor_coalesced(to_aliases, from_aliases, options);
    });
  }

  WorkPtr gather(TensorLists& to, Tensors& from, const c10d::GatherOptions& options) override {
    auto to_aliases = host("gather", to);
    auto from_aliases = host("gather", from);
    return under_way("gather", outputs(to), [&] {
      return gloo()->gather(to_aliases, from_aliases, options);
    });
  }

  WorkPtr scatter(Tensors& to, TensorLists& from, const c10d::ScatterOptions& options) override {
    auto to_aliases = host("scatter", to);
    auto from_aliases = host("scatter", from);
    return under_way("scatter", to, [&] {
      return gloo()->scatter(to_aliases, from_aliases, options);
    });
  }

  WorkPtr reduce_scatter(
      Tensors& to, TensorLists& from, const c10d::ReduceScatterOptions& options) override {
    auto mine = reducible("reduce_scatter", options.reduceOp, to);
    TensorLists all;
    for (const auto& list : from) {
      all.push_back(reducible("reduce_scatter", options.reduceOp, list).tensors());
    }
    return cast_back(
        mine,
        under_way("reduce_scatter", to, [&] {
          return gloo()->reduce_scatter(mine.tensors(), all, options);
        }));
  }

  WorkPtr _reduce_scatter_base(
      Tensor& to, Tensor& from, const c10d::ReduceScatterOptions& options) override {
    auto mine = reducible("reduce_scatter_tensor", options.reduceOp, Tensors{to});
    auto all = reducible("reduce_scatter_tensor", options.reduceOp, Tensors{from});
    return cast_back(
        mine,
        under_way("reduce_scatter_tensor", Tensors{to}, [&] {
          return gloo()->_reduce_scatter_base(mine.tensors()[0], all.tensors()[0], options);
        }));
  }

  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::ReduceScatterOptions& options) override {
    auto mine = reducible("reduce_scatter_tensor_coalesced", options.reduceOp, to);
    auto all = reducible("reduce_scatter_tensor_coalesced", options.reduceOp, from);
    return cast_back(
        mine,
        under_way("reduce_scatter_tensor_coalesced", to, [&] {
          return gloo()->reduce_scatter_tensor_coalesced(mine.tensors(), all.tensors(), options);
        }));
  }

  WorkPtr alltoall_base(
      Tensor& to,
      Tensor& from,
      std::vector<int64_t>& to_sizes,
      std::vector<int64_t>& from_sizes,
      const c10d::AllToAllOptions& options) override {
    auto to_alias = host("all_to_all_single", to);
    auto from_alias = host("all_to_all_single", from);
    return under_way("all_to_all_single", Tensors{to}, [&] {
      return gloo()->alltoall_base(to_alias, from_alias, to_sizes, from_sizes, options);
    });
  }

  WorkPtr alltoall(Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) override {
    auto to_aliases = host("all_to_all", to);
    auto from_aliases = host("all_to_all", from);
    return under_way("all_to_all", to, [&] {
      return gloo()->alltoall(to_aliases, from_aliases, options);
    });
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    auto aliases = host("send", tensors);
    return under_way("send", tensors, [&] { return gloo()->send(aliases, to, tag); });
  }

  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    auto aliases = host("recv", tensors);
    return under_way("recv", tensors, [&] { return gloo()->recv(aliases, from, tag); });
  }

  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    auto aliases = host("recv_anysource", tensors);
    return under_way("recv", tensors, [&] { return gloo()->recvAnysource(aliases, tag); });
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    limits_.check_call("barrier");
    auto on_host = options;
    on_host.device_ids.clear();
    on_host.device.reset();
    return under_way("barrier", Tensors{}, [&] { return gloo()->barrier(on_host); });
  }

  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    limits_.check_call("monitored_barrier");
    const CollectiveFaults faults("monitored_barrier", ++calls_, Tensors{});
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

  template <typename Launch> // gives Gloo's work
  WorkPtr under_way(const char* call, c10::IValue outputs, const Launch& launch) {
    CollectiveFaults faults(call, ++calls_, outputs);
    return c10::make_intrusive<ChipWork>(
        launch(),
        c10::str(name_, "'s ", call, " on rank ", rank_, " of ", size_),
        rank_,
        std::move(outputs),
        std::move(faults));
  }

  template <typename Given> // a tensor, a list of them, or a list of lists
  Given host(const char* call, const Given& given) const {
    return host_argument(limits_, call, given);
  }

  Reducible reducible(
      const char* call, const c10d::ReduceOp& reduction, const Tensors& tensors) const {
    Reducible reducible(limits_, call, reduction, tensors);
    TORCH_CHECK(
        reduction != c10d::ReduceOp::AVG,
        name_,
        "'s ",
        call,
        " was asked for the average (ReduceOp.AVG), which it does not have; ask for the sum "
        "(ReduceOp.SUM) and divide it by the ",
        size_,
        " ranks");
    return reducible;
  }

  // A conversion makes the call wait for its end.
  static WorkPtr cast_back(const Reducible& mine, WorkPtr work) {
    if (mine.is_converted()) {
      const ReleasedGil released; // Gloo's threads may need it
      static_cast<ChipWork&>(*work).wait_for_gloo(kNoTimeout);
      mine.cast_back();
      work->wait();
    }
    return work;
  }

  std::atomic<int64_t> calls_{0}; // of this group, point to point included
  mutable std::mutex mutex_; // of gloo_
  GlooPtr gloo_; // null once shut down
  const std::string name_;
  const CollectiveLimits limits_;
};

} // namespace

c10::intrusive_ptr<c10d::Backend> make_collective(
    c10::intrusive_ptr<c10d::Backend> gloo, std::string name, CollectiveLimits limits) {
  return c10::make_intrusive<Collective>(std::move(gloo), std::move(name), std::move(limits));
}

} // namespace chip
