#include "bindings/python/core/handle.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/core/dtypes.h"
#include "bindings/python/core/exporter.h"

namespace dabke::python {
namespace {

constexpr double kNoLimit = -1;  // seconds, as dabke_wait takes them

/// Frees the tensor of a capsule, unless a consumer has taken it. A consumer renames the capsule.
template <class Managed>
void free_capsule(PyObject* capsule) {
  const char* const name = PyCapsule_GetName(capsule);
  if (name == nullptr ||
      (std::string_view(name) != kCapsule && std::string_view(name) != kVersionedCapsule)) {
    return;
  }
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr) managed->deleter(managed);
}

int get_output(PyObject* self, Py_buffer* view, int flags) {
  return nb::inst_ptr<Output>(self)->get_buffer(self, view, flags);
}
PyType_Slot output_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_output)}, {0, nullptr}};

std::vector<std::int64_t> received_splits(const Handle& self) {
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  const dabke_status status = dabke_handle_received_splits(self.operation->handle(), &splits, &count);
  if (status != DABKE_OK) self.operation->check_complete();
  check(status);
  return {splits, splits + count};
}

int sender(const Handle& self) {
  std::int32_t rank = 0;
  check(dabke_handle_sender(self.operation->handle(), &rank));
  return rank;
}

int last_joined_rank(const Handle& self) {
  std::int32_t rank = -1;
  check(dabke_handle_last_joined_rank(self.operation->handle(), &rank));
  return rank;
}

int process_set_of(const Handle& self) {
  dabke_process_set id = -1;
  check(dabke_handle_process_set(self.operation->handle(), &id));
  return id;
}

nb::typed<nb::tuple, int, nb::ellipsis> shape_of(const Output& self) {
  nb::list dims;
  for (std::int32_t i = 0; i < self.dl().ndim; ++i) dims.append(self.dl().shape[i]);
  return nb::typed<nb::tuple, int, nb::ellipsis>(nb::tuple(dims));
}

std::string dtype_name(const Output& self) { return std::string(row_of(self.dl().dtype)->name); }

}  // namespace

Output::Output(std::shared_ptr<const Operation> operation, std::size_t index)
    : operation_(std::move(operation)), index_(index) {
  const dabke_status status = dabke_handle_output(operation_->handle(), index, &tensor_);
  if (status == DABKE_OK) return;
  operation_->check_complete();
  check(status);
}

int Output::get_buffer(PyObject* self, Py_buffer* view, int flags) {
  return export_tensor(self, *tensor_, dims_and_strides_, view, flags);
}

nb::object Output::capsule(bool versioned) const {
  PyObject* capsule = nullptr;
  if (versioned) {
    DLManagedTensorVersioned* managed = nullptr;
    check(dabke_handle_output_dlpack_versioned(operation_->handle(), index_, &managed));
    capsule = PyCapsule_New(managed, kVersionedCapsule, &free_capsule<DLManagedTensorVersioned>);
  } else {
    DLManagedTensor* managed = nullptr;
    check(dabke_handle_output_dlpack(operation_->handle(), index_, &managed));
    capsule = PyCapsule_New(managed, kCapsule, &free_capsule<DLManagedTensor>);
  }
  if (capsule == nullptr) nb::raise_python_error();
  return nb::steal(capsule);
}

namespace {

void bind_output(nb::module_& module) {
  nb::class_<Output>(
      module, "Output", nb::type_slots(output_slots), nb::sig("class Output(typing_extensions.Buffer)"),
      "An output of a completed operation. It exports its memory by the buffer protocol and by DLPack.")
      .def_prop_ro("shape", &shape_of, "The dimensions, outermost first.")
      .def_prop_ro("dtype", &dtype_name, "The NumPy name.")
      .def_prop_ro(
          "pointer", [](const Output& self) { return reinterpret_cast<std::uintptr_t>(self.dl().data); },
          "The address of the first element.")
      .def(
          "__dlpack__",
          [](const Output& self, nb::handle, std::optional<std::pair<int, int>> max_version, nb::handle,
             nb::handle) { return self.capsule(max_version && max_version->first >= 1); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          "A capsule that shares the memory.")
      .def(
          "__dlpack_device__",
          [](const Output& self) {
            return std::pair(int{self.dl().device.device_type}, int{self.dl().device.device_id});
          },
          "DLPack's type and number of the device.");
}

}  // namespace

void bind_handle(nb::module_& module) {
  bind_output(module);
  nb::class_<Handle>(module, "Handle", nb::is_weak_referenceable(),
                     "A submitted operation. If the handle is dropped, the operation is not cancelled, and "
                     "keeps its tensors until it has completed.")
      .def(
          "poll", [](const Handle& self) { return dabke_poll(self.operation->handle()) != 0; },
          "True if the operation has completed.")
      .def(
          "wait",
          [](const Handle& self, std::optional<double> timeout) {
            return self.operation->wait(timeout.value_or(kNoLimit));
          },
          nb::arg("timeout") = nb::none(),
          "Waits at most `timeout` seconds; without limit if that is None or negative. Returns False after a "
          "timeout. Raises the operation's error.")
      .def(
          "wait_stream",
          [](const Handle& self, std::uintptr_t stream, std::optional<double> timeout) {
            return self.operation->wait_stream(stream, timeout.value_or(kNoLimit));
          },
          nb::arg("stream"), nb::arg("timeout") = nb::none(),
          "Makes a CUDA stream wait for the result. The call itself waits only until the operation is handed "
          "to the device.\n\n"
          "Returns False if that takes longer than `timeout` seconds. Only wait() raises a later error.")
      .def_prop_ro(
          "status", [](const Handle& self) { return int{dabke_handle_status(self.operation->handle())}; },
          "The operation's status: a number of statuses().")
      .def_prop_ro(
          "message",
          [](const Handle& self) {
            const char* const text = dabke_handle_message(self.operation->handle());
            return nb::steal(
                PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
          },
          nb::sig("def message(self) -> str"), "The text of the operation's error; \"\" if there is none.")
      .def_prop_rw(
          "result", [](const Handle& self) { return nb::borrow<nb::any>(self.result); },
          [](Handle& self, nb::any result) { self.result = std::move(result); }, nb::arg("result").none(),
          "The caller's result of the operation: an object, or a function of the handle.")
      .def_prop_ro(
          "cuda_device", [](const Handle& self) { return self.operation->cuda_device(); },
          "The index of the CUDA device that has its tensors; -1 if they are not on a CUDA device.")
      .def_prop_ro(
          "output_count",
          [](const Handle& self) { return dabke_handle_output_count(self.operation->handle()); },
          "The number of outputs: one for each tensor.")
      .def(
          "output", [](const Handle& self, std::size_t index) { return Output(self.operation, index); },
          nb::arg("index") = 0, "An output of the operation, which must have completed.")
      .def("received_splits", &received_splits, "alltoall: the number of rows from each rank.")
      .def("sender", &sender, "send, recv: the world rank of the sender.")
      .def("last_joined_rank", &last_joined_rank, "join: the world rank that joined last.")
      .def("process_set_id", &process_set_of, "add_process_set_among_members: the id of the set.");
}

}  // namespace dabke::python
