// The collective library of the simulated chip: Gloo, on CPU aliases of device tensors.
#pragma once

#include "collective/awaited_work.h"
#include "collective/call_record.h"
#include "collective/checker.h"
#include "collective/collective_call.h"
#include "collective/collective_limits.h"
#include "collective/completions.h"
#include "collective/pending_calls.h"
#include "streams/streams.h"

#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace chip {

class HostArguments;

// Creates the backend below: a Python function, as torch's headers lack Gloo's. Set once.
using MakeBelow =
    std::function<BackendPtr(StorePtr, int rank, int size, std::chrono::milliseconds timeout)>;
void set_make_below(MakeBelow make);

// The options that torch copies, changes and returns to create a part of a group.
struct CollectiveOptions final : c10d::Backend::Options {
  using Options::Options;
  CollectiveOptions(const CollectiveOptions&) = default;
};

class Collective final : public c10d::Backend {
 public:
  // Joins the other ranks of the group: waits for them, and raises c10::DistBackendError with the
  // names of missing ranks. With `checks`, the ranks' calls are compared.
  Collective(GroupFacts facts, CollectiveLimits limits, bool checks, const StorePtr& store);
  ~Collective() override;

  bool supportsSplitting() const override {
    return true;
  }
  bool supportsCoalescing() const override {
    return true;
  }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  // Null on a rank that is not in `ranks`, which are this group's.
  BackendPtr split(
      const StorePtr& store,
      const std::vector<int>& ranks,
      const c10::intrusive_ptr<Options>& options) override;

  const std::string getBackendName() const override;
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override;
  void abort() override;
  void shutdown() override;

  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override;
  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override;
  WorkPtr allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&) override;
  WorkPtr reduce(Tensors&, const c10d::ReduceOptions&) override;
  WorkPtr allgather(TensorLists& to, Tensors& from, const c10d::AllgatherOptions&) override;
  WorkPtr allgather_coalesced(
      TensorLists& to, Tensors& from, const c10d::AllgatherOptions&) override;
  WorkPtr _allgather_base(
      at::Tensor& to, at::Tensor& from, const c10d::AllgatherOptions&) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::AllgatherOptions&) override;
  WorkPtr gather(TensorLists& to, Tensors& from, const c10d::GatherOptions&) override;
  WorkPtr scatter(Tensors& to, TensorLists& from, const c10d::ScatterOptions&) override;
  WorkPtr reduce_scatter(
      Tensors& to, TensorLists& from, const c10d::ReduceScatterOptions&) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& to, at::Tensor& from, const c10d::ReduceScatterOptions&) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& to, Tensors& from, const c10d::ReduceScatterOptions&) override;
  WorkPtr alltoall_base(
      at::Tensor& to,
      at::Tensor& from,
      std::vector<int64_t>& to_sizes,
      std::vector<int64_t>& from_sizes,
      const c10d::AllToAllOptions&) override;
  WorkPtr alltoall(Tensors& to, Tensors& from, const c10d::AllToAllOptions&) override;
  WorkPtr send(Tensors&, int to, int tag) override;
  WorkPtr recv(Tensors&, int from, int tag) override;
  WorkPtr recvAnysource(Tensors&, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions&) override;

 private:
  // The function to call in the library below.
  template <typename Opts, typename... Arguments>
  using Ask = WorkPtr (c10d::Backend::*)(Arguments..., const Opts&);

  // Calls with the same form of arguments.
  template <typename Opts>
  WorkPtr in_place(Call call, Ask<Opts, Tensors&> ask, Tensors&, const Opts&);
  template <typename Opts>
  WorkPtr between(
      Call call, Ask<Opts, Tensors&, Tensors&> ask, Tensors& to, Tensors& from, const Opts&);
  template <typename Opts>
  WorkPtr between(
      Call call,
      Ask<Opts, at::Tensor&, at::Tensor&> ask,
      at::Tensor& to,
      at::Tensor& from,
      const Opts&);
  template <typename Opts>
  WorkPtr into_lists(
      Call call,
      Ask<Opts, TensorLists&, Tensors&> ask,
      TensorLists& to,
      Tensors& from,
      const Opts&);
  template <typename Opts>
  WorkPtr from_lists(
      Call call,
      Ask<Opts, Tensors&, TensorLists&> ask,
      Tensors& to,
      TensorLists& from,
      const Opts&);
  WorkPtr receive(Call call, Tensors& tensors, int tag);

  // The one function for all calls: it keeps them while calls are coalesced.
  WorkPtr run(const Call& call, Launch launch);
  // Rejects calls that the library lacks, makes host tensors, writes the call on the board,
  // launches or checks it, and names the errors.
  WorkPtr carry_out(const Call& call, Launch launch);
  void check_ranks(const Call& call) const;
  // For a call on a device that is capturing a graph.
  void check_capturable(const Call& call, c10::DeviceIndex index) const;
  void record_for_replay(const Call& call, c10::DeviceIndex index, Launch launch);
  // For an all-gather with parts of different sizes.
  void check_own_part(const Tensors& parts, const at::Tensor& own) const;
  WorkPtr launched(
      const Call& call,
      const std::shared_ptr<CallRecord>& record,
      const std::shared_ptr<HostArguments>& host,
      BackendPtr below,
      Launch launch);

  void let_go_of_streams();
  // The stream on which a call takes effect if streams are deferred. Collectives share one, in
  // order; transfers from one rank under one tag have their own.
  c10::Stream own_stream(const Call& call, c10::DeviceIndex index);

  // The caller's own reference: another thread may shut the group down meanwhile.
  BackendPtr below_if_up() const;
  BackendPtr below() const;

  const std::shared_ptr<GroupState> state_;
  const CollectiveLimits limits_;
  const std::shared_ptr<Waiters> waiters_;
  const std::shared_ptr<Completions> completions_;
  mutable std::mutex mutex_; // for the members below
  BackendPtr below_; // null after shutdown
  std::unique_ptr<Checker> checker_; // null without comparison
  std::optional<Works> coalesced_; // set while calls are collected
  // Keys: device, and for transfers also peer and tag.
  std::map<std::tuple<c10::DeviceIndex, bool, int, int>, c10::Stream> streams_;
  PendingCalls pending_; // only collectives
};

} // namespace chip
