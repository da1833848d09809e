#include "bindings/python/core/refusal.h"

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/text.h"

namespace dabke::python {

void refuse(const RefusedCall&, nb::handle error) { raise(error); }

void bind_refusal(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const ArgumentError& error) {
      set_error(error_of(error.status(), error.text()));
    }
  });
  module.def(
      "refuse",
      [](nb::str collective, nb::str name, int process_set, nb::handle error) {
        refuse({utf8_of(collective, "the collective"), utf8_of(name, "the name"), process_set}, error);
      },
      nb::arg("collective"), nb::arg("name"), nb::arg("process_set"), nb::arg("error"));
}

}  // namespace dabke::python
