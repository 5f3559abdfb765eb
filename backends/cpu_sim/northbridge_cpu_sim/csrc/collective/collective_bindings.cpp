// The communication library's bindings, with which Python creates groups.
#include "bindings.h"
#include "collective/collective.h"

#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace chip {

void bind_collective(py::module& module) {
  py::class_<
      CollectiveOptions,
      c10d::Backend::Options,
      c10::intrusive_ptr<CollectiveOptions>>(module, "CollectiveOptions")
      .def("__deepcopy__", [](const CollectiveOptions& self, const py::dict&) {
        return c10::make_intrusive<CollectiveOptions>(self);
      });
  py::class_<Collective, c10d::Backend, c10::intrusive_ptr<Collective>>(module, "Collective")
      .def_property_readonly("options", &Collective::getBackendOptions)
      // torch calls it on a rank outside a new group, for a library that can split.
      .def("perform_nocolor_split", [](const Collective&, const py::object&) {});
  module.def("set_make_below", set_make_below, py::arg("make"));
  py::class_<GroupFacts>(module, "GroupFacts")
      .def(py::init<>())
      .def_readwrite("library", &GroupFacts::library)
      .def_readwrite("name", &GroupFacts::name)
      .def_readwrite("rank", &GroupFacts::rank)
      .def_readwrite("size", &GroupFacts::size)
      .def_readwrite("global_ranks", &GroupFacts::global_ranks)
      .def_readwrite("timeout", &GroupFacts::timeout);
  py::class_<CollectiveLimits>(module, "CollectiveLimits")
      .def(py::init<>())
      .def_readwrite("lacking_reductions", &CollectiveLimits::lacking_reductions)
      .def_readwrite("lacking_calls", &CollectiveLimits::lacking_calls)
      .def_readwrite("lacking_dtypes", &CollectiveLimits::lacking_dtypes)
      .def_readwrite("natively", &CollectiveLimits::natively)
      .def_readwrite("through", &CollectiveLimits::through);
  module.def(
      "make_collective",
      [](const StorePtr& store, GroupFacts facts, CollectiveLimits limits, bool checks) {
        return c10::make_intrusive<Collective>(std::move(facts), std::move(limits), checks, store);
      },
      py::call_guard<py::gil_scoped_release>());
}

} // namespace chip
