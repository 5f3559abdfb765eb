// torch registers the operators of its collectives for CPU, CUDA and PrivateUse1; these are for a key
// of torch's own. Each passes its call to the process group's library for the device. Types and order
// of arguments are torch's: its callers require exact equality.
#include "chip.h"

#ifdef CHIP_HAS_OWN_KEY

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

namespace chip {
namespace {

using at::Tensor;
using at::TensorList;
using std::chrono::milliseconds;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using SharedReduction = c10::intrusive_ptr<c10d::ReduceOp>;
using Sizes = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;
using TensorLists = std::vector<Tensors>;
using Work = c10::intrusive_ptr<c10d::Work>;

c10::intrusive_ptr<c10d::Backend> library(const Group& group) {
  return group->getBackend(kDeviceType);
}

std::tuple<Tensors, Work> broadcast(
    TensorList list,
    const Group& group,
    int64_t root,
    int64_t root_tensor,
    bool async,
    int64_t ms) {
  auto tensors = list.vec();
  auto work = library(group)->broadcast(tensors, {root, root_tensor, milliseconds(ms), async});
  return {std::move(tensors), std::move(work)};
}

std::tuple<Tensors, Work> all_reduce(
    TensorList list,
    const Group& group,
    const SharedReduction& reduction,
    const std::optional<Tensor>& sparse_indices,
    bool async,
    int64_t ms) {
  auto tensors = list.vec();
  auto work =
      library(group)->allreduce(tensors, {*reduction, milliseconds(ms), async, sparse_indices});
  return {std::move(tensors), std::move(work)};
}

Work all_reduce_coalesced(
    TensorList list, const Group& group, const SharedReduction& reduction, bool async, int64_t ms) {
  auto tensors = list.vec();
  return library(group)->allreduce_coalesced(tensors, {{*reduction, milliseconds(ms), async}});
}

Work reduce(
    TensorList list,
    const Group& group,
    const SharedReduction& reduction,
    int64_t root,
    int64_t root_tensor,
    bool async,
    int64_t ms) {
  auto tensors = list.vec();
  return library(group)->reduce(
      tensors, {*reduction, root, root_tensor, milliseconds(ms), async});
}

std::tuple<TensorLists, Work> all_gather(
    const TensorLists& to, TensorList from, const Group& group, bool async, int64_t ms) {
  auto outputs = to;
  auto inputs = from.vec();
  auto work = library(group)->allgather(outputs, inputs, {milliseconds(ms), async});
  return {std::move(outputs), std::move(work)};
}

std::tuple<Tensor, Work> all_gather_into_tensor(
    Tensor& to, Tensor& from, const Group& group, bool async, int64_t ms) {
  return {to, library(group)->_allgather_base(to, from, {milliseconds(ms), async})};
}

Work all_gather_coalesced(
    const TensorLists& to, const TensorList& from, const Group& group, bool async) {
  auto outputs = to;
  auto inputs = from.vec();
  return library(group)->allgather_coalesced(outputs, inputs, {c10d::kUnsetTimeout, async});
}

Work all_gather_into_tensor_coalesced(
    const TensorList to, const TensorList from, const Group& group, bool async) {
  auto outputs = to.vec();
  auto inputs = from.vec();
  return library(group)->allgather_into_tensor_coalesced(
      outputs, inputs, {c10d::kUnsetTimeout, async});
}

Work gather(
    const TensorLists& to,
    const TensorList& from,
    const Group& group,
    int64_t root,
    bool async,
    int64_t ms) {
  auto outputs = to;
  auto inputs = from.vec();
  return library(group)->gather(outputs, inputs, {root, milliseconds(ms), async});
}

std::tuple<Tensors, Work> scatter(
    const TensorList& to,
    const TensorLists& from,
    const Group& group,
    int64_t root,
    bool async,
    int64_t ms) {
  auto outputs = to.vec();
  auto inputs = from;
  auto work = library(group)->scatter(outputs, inputs, {root, milliseconds(ms), async});
  return {std::move(outputs), std::move(work)};
}

std::tuple<Tensors, Work> reduce_scatter(
    const TensorList& to,
    const TensorLists& from,
    const Group& group,
    const SharedReduction& reduction,
    bool async,
    int64_t ms) {
  auto outputs = to.vec();
  auto inputs = from;
  auto work =
      library(group)->reduce_scatter(outputs, inputs, {*reduction, milliseconds(ms), async});
  return {std::move(outputs), std::move(work)};
}

std::tuple<Tensor, Work> reduce_scatter_tensor(
    Tensor& to,
    Tensor& from,
    const Group& group,
    const SharedReduction& reduction,
    bool async,
    int64_t ms) {
  return {
      to, library(group)->_reduce_scatter_base(to, from, {*reduction, milliseconds(ms), async})};
}

Work reduce_scatter_tensor_coalesced(
    const TensorList to,
    const TensorList from,
    const Group& group,
    const SharedReduction& reduction,
    bool async,
    int64_t ms) {
  auto outputs = to.vec();
  auto inputs = from.vec();
  return library(group)->reduce_scatter_tensor_coalesced(
      outputs, inputs, {*reduction, milliseconds(ms), async});
}

Work all_to_all_single(
    Tensor& to,
    Tensor& from,
    const Group& group,
    Sizes to_sizes,
    Sizes from_sizes,
    bool async,
    int64_t ms) {
  return library(group)->alltoall_base(
      to, from, to_sizes, from_sizes, {milliseconds(ms), async});
}

std::tuple<Tensors, Work> all_to_all(
    const TensorList& to, const TensorList& from, const Group& group, bool async, int64_t ms) {
  auto outputs = to.vec();
  auto inputs = from.vec();
  auto work = library(group)->alltoall(outputs, inputs, {milliseconds(ms), async});
  return {std::move(outputs), std::move(work)};
}

Work send_to(TensorList list, const Group& group, int64_t to, int64_t tag) {
  auto tensors = list.vec();
  return library(group)->send(tensors, static_cast<int>(to), static_cast<int>(tag));
}

Work receive_from(TensorList list, const Group& group, int64_t from, int64_t tag) {
  auto tensors = list.vec();
  return library(group)->recv(tensors, static_cast<int>(from), static_cast<int>(tag));
}

Work receive_from_any(TensorList list, const Group& group, int64_t tag) {
  auto tensors = list.vec();
  return library(group)->recvAnysource(tensors, static_cast<int>(tag));
}

Work barrier(Tensor, const Group& group, const Sizes& device_ids, bool async, int64_t ms) {
  return library(group)->barrier({device_ids, milliseconds(ms), std::nullopt, async});
}

} // namespace

TORCH_LIBRARY_IMPL(c10d, CHIP_KEY, m) {
  m.impl("broadcast_", broadcast);
  m.impl("allreduce_", all_reduce);
  m.impl("allreduce_coalesced_", all_reduce_coalesced);
  m.impl("reduce_", reduce);
  m.impl("allgather_", all_gather);
  m.impl("_allgather_base_", all_gather_into_tensor);
  m.impl("allgather_coalesced_", all_gather_coalesced);
  m.impl("allgather_into_tensor_coalesced_", all_gather_into_tensor_coalesced);
  m.impl("gather_", gather);
  m.impl("scatter_", scatter);
  m.impl("reduce_scatter_", reduce_scatter);
  m.impl("_reduce_scatter_base_", reduce_scatter_tensor);
  m.impl("reduce_scatter_tensor_coalesced_", reduce_scatter_tensor_coalesced);
  m.impl("alltoall_base_", all_to_all_single);
  m.impl("alltoall_", all_to_all);
  m.impl("send", send_to);
  m.impl("recv_", receive_from);
  m.impl("recv_any_source_", receive_from_any);
  m.impl("barrier", barrier);
}

} // namespace chip

#endif // CHIP_HAS_OWN_KEY
