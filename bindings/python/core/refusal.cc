#include "bindings/python/core/refusal.h"

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/text.h"

namespace dabke::python {

namespace {

/// Sends the error's text to the other ranks. A failure is ignored: without a job no rank waits for this one,
/// and the caller gets its error in any case.
void announce(const RefusedCall& call, nb::handle error) {
  const std::optional<dabke_collective> collective = collective_of(call.collective);
  if (!collective) return;
  dabke_options options = DABKE_OPTIONS_INIT;
  options.process_set = call.process_set;
  const nb::str text(error);
  (void)dabke_refuse(*collective, call.name, &options, text.c_str());
}

}  // namespace

void refuse(const RefusedCall& call, nb::handle error) {
  announce(call, error);
  raise(error);
}

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
      nb::arg("collective"), nb::arg("name"), nb::arg("process_set"), nb::arg("error"),
      nb::sig("def refuse(collective: str, name: str, process_set: int, error: BaseException) -> "
              "typing.NoReturn"),
      "Raises `error` for a call that this rank does not make, and sends its text to the other ranks of the "
      "set, which may have called.");
}

}  // namespace dabke::python
