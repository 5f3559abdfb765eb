// Bindings for the package `faults`.
#include "bindings.h"
#include "faults/fault_plan.h"

#include <pybind11/stl.h>

#include <utility>

namespace chip {
namespace {

PyObject* place = nullptr; // never destroyed: threads of torch outlive the interpreter

void set_fault_place(const py::object& function) {
  const py::object before = py::reinterpret_steal<py::object>(
      std::exchange(place, py::object(function).release().ptr()));
}

} // namespace

FaultPlace fault_place() {
  if (place == nullptr || !Py_IsInitialized()) {
    return {};
  }
  const py::gil_scoped_acquire gil;
  const auto [rank, step] = py::cast<std::pair<int64_t, int64_t>>(
      py::reinterpret_borrow<py::object>(place)());
  return {rank, step};
}

void bind_faults(py::module_& m) {
  py::class_<Fault, FaultPtr>(m, "Fault")
      .def(py::init<>())
      .def_readwrite("kind", &Fault::kind)
      .def_readwrite("text", &Fault::text)
      .def_readwrite("id", &Fault::id)
      .def_readwrite("position", &Fault::position)
      .def_readwrite("first_step", &Fault::first_step)
      .def_readwrite("rank", &Fault::rank)
      .def_readwrite("step", &Fault::step)
      .def_readwrite("device", &Fault::device)
      .def_readwrite("op", &Fault::operation)
      .def_readwrite("seq", &Fault::sequence)
      .def_readwrite("after", &Fault::after)
      .def_readwrite("times", &Fault::times)
      .def_readwrite("probability", &Fault::probability)
      .def_readwrite("seed", &Fault::seed)
      .def_readwrite("seconds", &Fault::seconds)
      .def_readwrite("message", &Fault::message)
      .def_readwrite("value", &Fault::value)
      .def_readwrite("bit", &Fault::bit)
      .def_readwrite("element", &Fault::element);
  py::class_<MetFault>(m, "MetFault")
      .def_readonly("id", &MetFault::id)
      .def_readonly("rank", &MetFault::rank)
      .def_readonly("step", &MetFault::step)
      .def_readonly("op", &MetFault::name)
      .def_readonly("device", &MetFault::device)
      .def_readonly("seq", &MetFault::sequence);
  m.def("set_fault_place", set_fault_place);
  m.def("plan_faults", plan_faults);
  m.def("faults_met", faults_met);
}

} // namespace chip
