// What each call reads and writes, and how the backend below is asked for it.
#include "released_gil.h" // first: it includes Python.h

#include "collective.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace chip {
namespace {

using at::Tensor;
using c10d::Backend;
using c10d::OpType;

// As torch's own backends: one list of outputs is flat in the future.
c10::IValue outputs(const TensorLists& lists) {
  return lists.size() == 1 ? c10::IValue(lists[0]) : c10::IValue(lists);
}

template <typename Options>
Call with(const Options& options, const char* name, c10d::OpType type) {
  Call call{name, type};
  call.timeout = options.timeout;
  call.is_async = options.asyncOp;
  return call;
}

template <typename Options>
Call reducing(const Options& options, const char* name, c10d::OpType type) {
  auto call = with(options, name, type);
  call.reduction = options.reduceOp;
  return call;
}

template <typename Options>
Options with_reduction(Options options, const HostTensors& host) {
  options.reduceOp = host.reduction;
  return options;
}

// How many elements of a tensor belong to each rank: sizes are rows, and equal ones are left out.
std::vector<int64_t> elements(const Tensor& tensor, const std::vector<int64_t>& sizes, int ranks) {
  if (sizes.empty()) {
    return std::vector<int64_t>(static_cast<size_t>(ranks), tensor.numel() / ranks);
  }
  const auto rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  const auto row = rows == 0 ? 0 : tensor.numel() / rows;
  auto counts = sizes;
  for (auto& count : counts) {
    count *= row;
  }
  return counts;
}

std::vector<int64_t> elements(const Tensors& tensors) {
  std::vector<int64_t> counts;
  for (const auto& tensor : tensors) {
    counts.push_back(tensor.numel());
  }
  return counts;
}

Call point_to_point(const char* name, c10d::OpType type, int peer) {
  Call call{name, type};
  call.peer = peer;
  call.is_point_to_point = true;
  return call;
}

} // namespace

WorkPtr Collective::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  auto call = with(options, "broadcast", OpType::BROADCAST);
  call.root = static_cast<int>(options.rootRank);
  (call.root == rank_ ? call.in : call.out) = tensors;
  call.same = call.root == rank_ ? Same::in : Same::out;
  call.outputs = tensors;
  return run(call, [options, sends = call.root == rank_](Backend& below, HostTensors& host) {
    return below.broadcast(sends ? host.in : host.out, options);
  });
}

WorkPtr Collective::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  auto call = reducing(options, "all_reduce", OpType::ALLREDUCE);
  call.updated = tensors;
  call.outputs = tensors;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below.allreduce(host.updated, with_reduction(options, host));
  });
}

WorkPtr Collective::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  auto call = reducing(options, "all_reduce_coalesced", OpType::ALLREDUCE_COALESCED);
  call.updated = tensors;
  call.outputs = tensors;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below.allreduce_coalesced(host.updated, with_reduction(options, host));
  });
}

WorkPtr Collective::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  auto call = reducing(options, "reduce", OpType::REDUCE);
  call.root = static_cast<int>(options.rootRank);
  call.updated = tensors;
  call.outputs = tensors;
  call.writes_here = call.root == rank_;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below.reduce(host.updated, with_reduction(options, host));
  });
}

WorkPtr Collective::allgather(
    TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = with(options, "all_gather", OpType::ALLGATHER);
  call.in = from;
  call.same = Same::in;
  call.out = flat(to);
  call.outputs = outputs(to);
  return run(call, [options, to](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.out, to);
    return below.allgather(lists, host.in, options);
  });
}

WorkPtr Collective::allgather_coalesced(
    TensorLists& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = with(options, "all_gather_coalesced", OpType::ALLGATHER_COALESCED);
  call.in = from;
  call.same = Same::in;
  call.out = flat(to);
  call.outputs = outputs(to);
  return run(call, [options, to](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.out, to);
    return below.allgather_coalesced(lists, host.in, options);
  });
}

WorkPtr Collective::_allgather_base(
    Tensor& to, Tensor& from, const c10d::AllgatherOptions& options) {
  auto call = with(options, "all_gather_into_tensor", OpType::_ALLGATHER_BASE);
  call.in = {from};
  call.same = Same::in;
  call.out = {to};
  call.outputs = call.out;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below._allgather_base(host.out[0], host.in[0], options);
  });
}

WorkPtr Collective::allgather_into_tensor_coalesced(
    Tensors& to, Tensors& from, const c10d::AllgatherOptions& options) {
  auto call = with(options, "all_gather_into_tensor_coalesced", OpType::ALLGATHER_COALESCED);
  call.in = from;
  call.same = Same::in;
  call.out = to;
  call.outputs = to;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below.allgather_into_tensor_coalesced(host.out, host.in, options);
  });
}

WorkPtr Collective::gather(
    TensorLists& to, Tensors& from, const c10d::GatherOptions& options) {
  auto call = with(options, "gather", OpType::GATHER);
  call.root = static_cast<int>(options.rootRank);
  call.in = from;
  call.same = Same::in;
  call.out = flat(to);
  call.outputs = outputs(to);
  return run(call, [options, to](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.out, to);
    return below.gather(lists, host.in, options);
  });
}

WorkPtr Collective::scatter(
    Tensors& to, TensorLists& from, const c10d::ScatterOptions& options) {
  auto call = with(options, "scatter", OpType::SCATTER);
  call.root = static_cast<int>(options.rootRank);
  call.in = flat(from);
  call.out = to;
  call.same = Same::out;
  call.outputs = to;
  return run(call, [options, from](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.in, from);
    return below.scatter(host.out, lists, options);
  });
}

WorkPtr Collective::reduce_scatter(
    Tensors& to, TensorLists& from, const c10d::ReduceScatterOptions& options) {
  auto call = reducing(options, "reduce_scatter", OpType::REDUCE_SCATTER);
  call.in = flat(from);
  call.out = to;
  call.same = Same::out;
  call.outputs = to;
  return run(call, [options, from](Backend& below, HostTensors& host) {
    auto lists = in_lists(host.in, from);
    return below.reduce_scatter(host.out, lists, with_reduction(options, host));
  });
}

WorkPtr Collective::_reduce_scatter_base(
    Tensor& to, Tensor& from, const c10d::ReduceScatterOptions& options) {
  auto call = reducing(options, "reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE);
  call.in = {from};
  call.out = {to};
  call.same = Same::out;
  call.outputs = call.out;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below._reduce_scatter_base(host.out[0], host.in[0], with_reduction(options, host));
  });
}

WorkPtr Collective::reduce_scatter_tensor_coalesced(
    Tensors& to, Tensors& from, const c10d::ReduceScatterOptions& options) {
  auto call = reducing(options, "reduce_scatter_tensor_coalesced", OpType::REDUCE_SCATTER_TENSOR_COALESCED);
  call.in = from;
  call.out = to;
  call.same = Same::out;
  call.outputs = to;
  return run(call, [options](Backend& below, HostTensors& host) {
    return below.reduce_scatter_tensor_coalesced(
        host.out, host.in, with_reduction(options, host));
  });
}

WorkPtr Collective::alltoall_base(
    Tensor& to,
    Tensor& from,
    std::vector<int64_t>& to_sizes,
    std::vector<int64_t>& from_sizes,
    const c10d::AllToAllOptions& options) {
  auto call = with(options, "all_to_all_single", OpType::ALLTOALL_BASE);
  call.in = {from};
  call.out = {to};
  call.to_ranks = elements(from, from_sizes, size_);
  call.from_ranks = elements(to, to_sizes, size_);
  call.outputs = call.out;
  return run(
      call, [options, to_sizes, from_sizes](Backend& below, HostTensors& host) mutable {
        return below.alltoall_base(host.out[0], host.in[0], to_sizes, from_sizes, options);
      });
}

WorkPtr Collective::alltoall(
    Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) {
  auto call = with(options, "all_to_all", OpType::ALLTOALL);
  call.in = from;
  call.out = to;
  call.to_ranks = elements(from);
  call.from_ranks = elements(to);
  call.outputs = to;
  // Gloo's own takes equal parts alone. Whose parts are equal cannot know whether the others' are, so
  // that all ranks go this way, and wait for the end to take the result apart.
  return run(call, [options](Backend& below, HostTensors& host) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    Tensors parts;
    std::vector<int64_t> from_sizes, to_sizes;
    for (const auto& part : host.in) {
      parts.push_back(part.reshape({-1}));
      from_sizes.push_back(part.numel());
    }
    int64_t total = 0;
    for (const auto& part : host.out) {
      to_sizes.push_back(part.numel());
      total += part.numel();
    }
    auto sent = at::cat(parts);
    auto arrived = at::empty({total}, sent.options());
    const auto work = below.alltoall_base(arrived, sent, to_sizes, from_sizes, options);
    {
      const ReleasedGil released; // Gloo's threads may need it
      work->wait(kNoTimeout);
    }
    int64_t at = 0;
    for (const auto& part : host.out) {
      part.copy_(arrived.narrow(0, at, part.numel()).view_as(part));
      at += part.numel();
    }
    return work;
  });
}

WorkPtr Collective::send(Tensors& tensors, int to, int tag) {
  auto call = point_to_point("send", OpType::SEND, to);
  call.in = tensors;
  call.same = Same::in;
  call.outputs = tensors;
  return run(call, [to, tag](Backend& below, HostTensors& host) {
    return below.send(host.in, to, tag);
  });
}

WorkPtr Collective::recv(Tensors& tensors, int from, int tag) {
  auto call = point_to_point("recv", OpType::RECV, from);
  call.out = tensors;
  call.same = Same::out;
  call.outputs = tensors;
  return run(call, [from, tag](Backend& below, HostTensors& host) {
    return below.recv(host.out, from, tag);
  });
}

WorkPtr Collective::recvAnysource(Tensors& tensors, int tag) {
  auto call = point_to_point("recv_anysource", OpType::RECVANYSOURCE, -1);
  call.out = tensors;
  call.same = Same::out;
  call.outputs = tensors;
  return run(call, [tag](Backend& below, HostTensors& host) {
    return below.recvAnysource(host.out, tag);
  });
}

WorkPtr Collective::barrier(const c10d::BarrierOptions& options) {
  auto call = with(options, "barrier", OpType::BARRIER);
  call.outputs = Tensors{};
  auto on_host = options;
  on_host.device_ids.clear();
  on_host.device.reset();
  return run(call, [on_host](Backend& below, HostTensors&) { return below.barrier(on_host); });
}

void Collective::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto call = with(options, "monitored_barrier", OpType::BARRIER);
  call.outputs = Tensors{};
  const auto work = run(call, [options, wait_all_ranks](Backend& below, HostTensors&) {
    below.monitoredBarrier(options, wait_all_ranks);
    return WorkPtr();
  });
  if (work) {
    const ReleasedGil released;
    work->wait();
  }
}

} // namespace chip
