// The tensors that each call reads and writes, and its call of the backend below.
#include "collective/collective.h"

#include "collective/call_signature.h"
#include "collective/collective_parts.h"

namespace chip {
namespace {

using at::Tensor;
using c10d::Backend;
using c10d::OpType;

// As in torch's own backends: one list of outputs is flat in the future.
c10::IValue outputs(const TensorLists& lists) {
  return lists.size() == 1 ? c10::IValue(lists[0]) : c10::IValue(lists);
}

template <typename Opts>
Call begin(const Opts& options, const char* name, OpType type) {
  Call call{name, type};
  call.timeout = options.timeout;
  call.is_async = options.asyncOp;
  if constexpr (requires { options.reduceOp; }) {
    call.reduction = options.reduceOp;
  }
  if constexpr (requires { options.rootRank; }) {
    call.root = static_cast<int>(options.rootRank);
  }
  return call;
}

template <typename Opts>
Opts on_host(Opts options, const HostTensors& host) {
  if constexpr (requires { options.reduceOp; }) {
    options.reduceOp = host.reduction;
  }
  return options;
}

Call between_two(const char* name, OpType type, int peer) {
  Call call{name, type};
  call.peer = peer;
  call.is_point_to_point = true;
  call.is_done_by_wait = true;
  return call;
}

} // namespace

template <typename Opts>
WorkPtr Collective::in_place(
    Call call, Ask<Opts, Tensors&> ask, Tensors& tensors, const Opts& options) {
  call.updated = tensors;
  call.outputs = tensors;
  return run(call, [ask, options](Backend& below, HostTensors& host) {
    return (below.*ask)(host.updated, on_host(options, host));
  });
}

template <typename Opts>
WorkPtr Collective::between(
    Call call, Ask<Opts, Tensors&, Tensors&> ask, Tensors& to, Tensors& from, const Opts& options) {
  call.in = from;
  call.out = to;
  call.same = call.reduction ? Same::out : Same::in;
  call.outputs = to;
  return run(call, [ask, options](Backend& below, HostTensors& host) {
    auto to_rows = in_rows(host.out), from_rows = in_rows(host.in);
    return (below.*ask)(to_rows, from_rows, on_host(options, host));
  });
}

template <typename Opts>
WorkPtr Collective::between(
    Call call, Ask<Opts, Tensor&, Tensor&> ask, Tensor& to, Tensor& from, const Opts& options) {
  call.in = {from};
  call.out = {to};
  call.same = call.reduction ? Same::out : Same::in;
  call.outputs = call.out;
  return run(call, [ask, options](Backend& below, HostTensors& host) {
    auto to_row = in_a_row(host.out[0]), from_row = in_a_row(host.in[0]);
    return (below.*ask)(to_row, from_row, on_host(options, host));
  });
}

template <typename Opts>
WorkPtr Collective::into_lists(
    Call call,
    Ask<Opts, TensorLists&, Tensors&> ask,
    TensorLists& to,
    Tensors& from,
    const Opts& options) {
  call.in = from;
  call.out = flat(to);
  call.same = Same::in;
  call.outputs = outputs(to);
  return run(call, [ask, options, sizes = sizes_of(to)](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.out, sizes);
    return (below.*ask)(lists, host.in, options);
  });
}

template <typename Opts>
WorkPtr Collective::from_lists(
    Call call,
    Ask<Opts, Tensors&, TensorLists&> ask,
    Tensors& to,
    TensorLists& from,
    const Opts& options) {
  const bool are_own = from.size() == 1 && have_own_sizes(from[0], size_); // their sizes may differ
  call.in = flat(from);
  call.out = to;
  call.same = call.reduction && are_own ? Same::in : Same::out;
  call.outputs = to;
  return run(call, [ask, options, sizes = sizes_of(from)](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.in, sizes);
    return (below.*ask)(host.out, lists, on_host(options, host));
  });
}

WorkPtr Collective::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  auto call = begin(options, "broadcast", OpType::BROADCAST);
  const bool sends = call.root == rank_;
  (sends ? call.in : call.out) = tensors;
  call.same = sends ? Same::in : Same::out;
  call.outputs = tensors;
  return run(call, [options, sends](Backend& below, HostTensors& host) {
    return below.broadcast(sends ? host.in : host.out, options);
  });
}

WorkPtr Collective::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  auto call = begin(options, "all_reduce", OpType::ALLREDUCE);
  return in_place(std::move(call), &Backend::allreduce, tensors, options);
}

WorkPtr Collective::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  auto call = begin(options, "all_reduce_coalesced", OpType::ALLREDUCE_COALESCED);
  return in_place(std::move(call), &Backend::allreduce_coalesced, tensors, options);
}

WorkPtr Collective::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  auto call = begin(options, "reduce", OpType::REDUCE);
  call.writes_here = call.root == rank_;
  return in_place(std::move(call), &Backend::reduce, tensors, options);
}

void Collective::check_own_part(const Tensors& parts, const Tensor& own) const {
  const auto& part = parts.at(static_cast<size_t>(rank_));
  TORCH_CHECK_VALUE(
      part.sizes().equals(own.sizes()),
      state_->facts.library, "'s all_gather on ", state_->facts.here_in_words(),
      " was given a tensor of shape ", own.sizes(), " and ", part.sizes(),
      " to hold it. Fix: give each output the tensor's shape");
}

WorkPtr Collective::allgather(
    TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = begin(options, "all_gather", OpType::ALLGATHER);
  if (from.size() == 1 && to.size() == 1 && have_own_sizes(to[0], size_)) {
    check_own_part(to[0], from[0]);
    call.in = from;
    call.out = to[0];
    call.same = Same::out; // like NCCL's: the sizes of the ranks' tensors may differ
    call.outputs = to[0];
    return run(call, [timeout = options.timeout](Backend& below, HostTensors& host) {
      const Tensors copies(host.out.size(), host.in[0]);
      return exchange_parts(below, host.out, copies, timeout);
    });
  }
  return into_lists(std::move(call), &Backend::allgather, to, from, options);
}

WorkPtr Collective::allgather_coalesced(
    TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = begin(options, "all_gather_coalesced", OpType::ALLGATHER_COALESCED);
  return into_lists(std::move(call), &Backend::allgather_coalesced, to, from, options);
}

WorkPtr Collective::_allgather_base(
    Tensor& to, Tensor& from, const c10d::AllgatherOptions& options) {
  auto call = begin(options, "all_gather_into_tensor", OpType::_ALLGATHER_BASE);
  return between(std::move(call), &Backend::_allgather_base, to, from, options);
}

WorkPtr Collective::allgather_into_tensor_coalesced(
    Tensors& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = begin(options, "all_gather_into_tensor_coalesced", OpType::ALLGATHER_COALESCED);
  return between(
      std::move(call), &Backend::allgather_into_tensor_coalesced, to, from, options);
}

WorkPtr Collective::gather(
    TensorLists& to, Tensors& from, const c10d::GatherOptions& options) {
  auto call = begin(options, "gather", OpType::GATHER);
  return into_lists(std::move(call), &Backend::gather, to, from, options);
}

WorkPtr Collective::scatter(
    Tensors& to, TensorLists& from, const c10d::ScatterOptions& options) {
  auto call = begin(options, "scatter", OpType::SCATTER);
  return from_lists(std::move(call), &Backend::scatter, to, from, options);
}

WorkPtr Collective::reduce_scatter(
    Tensors& to, TensorLists& from, const c10d::ReduceScatterOptions& options) {
  auto call = begin(options, "reduce_scatter", OpType::REDUCE_SCATTER);
  call.is_done_by_wait = true;
  return from_lists(std::move(call), &Backend::reduce_scatter, to, from, options);
}

WorkPtr Collective::_reduce_scatter_base(
    Tensor& to, Tensor& from, const c10d::ReduceScatterOptions& options) {
  auto call = begin(options, "reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE);
  call.is_done_by_wait = true;
  return between(std::move(call), &Backend::_reduce_scatter_base, to, from, options);
}

WorkPtr Collective::reduce_scatter_tensor_coalesced(
    Tensors& to, Tensors& from, const c10d::ReduceScatterOptions& options) {
  auto call = begin(
      options, "reduce_scatter_tensor_coalesced", OpType::REDUCE_SCATTER_TENSOR_COALESCED);
  call.is_done_by_wait = true;
  return between(
      std::move(call), &Backend::reduce_scatter_tensor_coalesced, to, from, options);
}

WorkPtr Collective::alltoall_base(
    Tensor& to,
    Tensor& from,
    std::vector<int64_t>& to_sizes,
    std::vector<int64_t>& from_sizes,
    const c10d::AllToAllOptions& options) {
  auto call = begin(options, "all_to_all_single", OpType::ALLTOALL_BASE);
  call.in = {from};
  call.out = {to};
  call.to_ranks = elements_for_ranks(from, from_sizes, size_);
  call.from_ranks = elements_for_ranks(to, to_sizes, size_);
  call.outputs = call.out;
  return run(
      call, [options, to_sizes, from_sizes](Backend& below, HostTensors& host) mutable {
        return below.alltoall_base(host.out[0], host.in[0], to_sizes, from_sizes, options);
      });
}

WorkPtr Collective::alltoall(
    Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) {
  auto call = begin(options, "all_to_all", OpType::ALLTOALL);
  call.in = from;
  call.out = to;
  call.to_ranks = elements_of(from);
  call.from_ranks = elements_of(to);
  call.outputs = to;
  // Gloo's own call needs equal parts. A rank with equal parts cannot know if the others' are equal
  // too, so all ranks take this path, and divide the result at the end.
  return run(call, [timeout = options.timeout](Backend& below, HostTensors& host) {
    return exchange_parts(below, host.out, host.in, timeout);
  });
}

WorkPtr Collective::send(Tensors& tensors, int to, int tag) {
  auto call = between_two("send", OpType::SEND, to);
  call.tag = tag;
  call.in = tensors;
  call.same = Same::in;
  call.outputs = tensors;
  return run(call, [to, tag](Backend& below, HostTensors& host) {
    return below.send(host.in, to, tag);
  });
}

WorkPtr Collective::recv(Tensors& tensors, int from, int tag) {
  return receive(between_two("recv", OpType::RECV, from), tensors, tag);
}

WorkPtr Collective::recvAnysource(Tensors& tensors, int tag) {
  return receive(between_two("recv_anysource", OpType::RECVANYSOURCE, kAnyRank), tensors, tag);
}

WorkPtr Collective::receive(Call call, Tensors& tensors, int tag) {
  call.tag = tag;
  call.out = tensors;
  call.same = Same::out;
  call.outputs = tensors;
  return run(call, [from = call.peer, tag](Backend& below, HostTensors& host) {
    return from == kAnyRank ? below.recvAnysource(host.out, tag)
                            : below.recv(host.out, from, tag);
  });
}

WorkPtr Collective::barrier(const c10d::BarrierOptions& options) {
  auto call = begin(options, "barrier", OpType::BARRIER);
  call.outputs = Tensors{};
  auto on_host = options;
  on_host.device_ids.clear();
  on_host.device.reset();
  return run(call, [on_host](Backend& below, HostTensors&) { return below.barrier(on_host); });
}

} // namespace chip
