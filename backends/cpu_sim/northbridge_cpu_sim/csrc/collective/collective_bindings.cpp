// The communication library, as Python makes its groups.
#include "bindings.h"
#include "collective/collective.h"

#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace chip {
namespace {

using CollectivePtr = c10::intrusive_ptr<Collective>;

CollectivePtr make_collective(
    const StorePtr& store,
    std::string library,
    std::string name,
    int rank,
    int size,
    std::vector<int64_t> global_ranks,
    std::chrono::milliseconds timeout,
    bool checks,
    CollectiveLimits::Sentences lacking_reductions,
    CollectiveLimits::Sentences lacking_calls,
    std::map<std::string, CollectiveLimits::DtypeSentences> lacking_dtypes,
    std::vector<c10::ScalarType> natively,
    std::optional<c10::ScalarType> through) {
  return c10::make_intrusive<Collective>(
      GroupFacts{std::move(library), std::move(name), rank, size, std::move(global_ranks), timeout},
      CollectiveLimits{
          std::move(lacking_reductions),
          std::move(lacking_calls),
          std::move(lacking_dtypes),
          std::move(natively),
          through},
      checks,
      store);
}

} // namespace

void bind_collective(py::module& module) {
  py::class_<
      CollectiveOptions,
      c10d::Backend::Options,
      c10::intrusive_ptr<CollectiveOptions>>(module, "CollectiveOptions")
      .def("__deepcopy__", [](const CollectiveOptions& self, const py::dict&) {
        return c10::make_intrusive<CollectiveOptions>(self);
      });
  py::class_<Collective, c10d::Backend, CollectivePtr>(module, "Collective")
      .def_property_readonly("options", &Collective::getBackendOptions)
      // torch asks for this where a rank is not in a new group, of a library that can split.
      .def("perform_nocolor_split", [](const Collective&, const py::object&) {});
  module.def("set_make_below", set_make_below, py::arg("make"));
  module.def(
      "make_collective",
      make_collective,
      py::arg("store"),
      py::arg("library"),
      py::arg("name"),
      py::arg("rank"),
      py::arg("size"),
      py::arg("global_ranks"),
      py::arg("timeout"),
      py::arg("checks"),
      py::arg("lacking_reductions"),
      py::arg("lacking_calls"),
      py::arg("lacking_dtypes"),
      py::arg("natively"),
      py::arg("through"),
      py::call_guard<py::gil_scoped_release>());
}

} // namespace chip
