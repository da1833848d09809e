// Memory of dabke_alloc as a Python object that exports it.
#include <nanobind/stl/string.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/interpreter/gil.h"

namespace dabke::python {
namespace {

/// Freed with the last array that lies in it. A pending operation keeps its arrays, so its memory is not
/// freed. One exception: an operation whose memory was described by hand, without an owner. dabke_free then
/// waits for it without the interpreter's lock, so that other threads go on.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes), data_(dabke_alloc(bytes != 0 ? bytes : 1)) {
    if (data_ == nullptr) raise(DABKE_ERROR_OUT_OF_MEMORY, dabke_last_error());
  }
  ~Memory() {
    PyThreadState* const thread = give_lock_back();
    dabke_free(data_);
    take_lock(thread);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_;
};

int get_memory(PyObject* self, Py_buffer* view, int flags) {
  const Memory& memory = *nb::inst_ptr<Memory>(self);
  return PyBuffer_FillInfo(view, self, memory.data(), static_cast<Py_ssize_t>(memory.bytes()), 0, flags);
}
PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_memory)}, {0, nullptr}};

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots),
                     nb::sig("class Memory(typing_extensions.Buffer)"),
                     "Memory of dabke_alloc, exported by the buffer protocol.")
      .def(nb::init<std::size_t>(), nb::arg("size_bytes"), "Allocates memory, which is not initialized.")
      .def_prop_ro(
          "pointer", [](const Memory& self) { return reinterpret_cast<std::uintptr_t>(self.data()); },
          "The address of the first byte.")
      .def("__len__", &Memory::bytes, "The size in bytes.");
}

}  // namespace dabke::python
