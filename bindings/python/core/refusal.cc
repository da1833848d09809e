#include "bindings/python/core/refusal.h"

#include <algorithm>
#include <iterator>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/text.h"

namespace dabke::python {

namespace {

constexpr std::pair<std::string_view, dabke_collective> kCollectives[] = {
    {"allreduce", DABKE_ALLREDUCE}, {"allgather", DABKE_ALLGATHER},         {"broadcast", DABKE_BROADCAST},
    {"alltoall", DABKE_ALLTOALL},   {"reducescatter", DABKE_REDUCESCATTER}, {"barrier", DABKE_BARRIER},
};

/// Without a job nobody waits for this rank, and what cannot be said keeps the error from nobody here.
void announce(const RefusedCall& call, nb::handle error) {
  const auto* const row =
      std::ranges::find(kCollectives, call.collective, &std::pair<std::string_view, dabke_collective>::first);
  if (row == std::end(kCollectives)) return;
  dabke_options options = DABKE_OPTIONS_INIT;
  options.process_set = call.process_set;
  const nb::str text(error);
  (void)dabke_refuse(row->second, call.name, &options, text.c_str());
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
      nb::arg("collective"), nb::arg("name"), nb::arg("process_set"), nb::arg("error"));
}

}  // namespace dabke::python
