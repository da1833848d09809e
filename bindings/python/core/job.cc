// Start, end, and the place of this process in the job.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/interpreter/gil.h"
#include "bindings/python/core/interpreter/interruption.h"
#include "bindings/python/core/text.h"

namespace dabke::python {
namespace {

bool& thread_has_submitted() {
  thread_local bool has = false;
  return has;
}

/// A Python function that takes this process's bytes and returns those of all processes, for the C API.
struct Exchange {
  nb::object function;
  std::int64_t size = 0;
  std::optional<nb::python_error> error;  // the exception that the function has raised

  /// Calls the function, and copies the bytes of all processes, one after the other, to `all`.
  void run(const void* mine, void* all, std::size_t capacity) {
    const nb::bytes everything = nb::cast<nb::bytes>(function(nb::bytes(mine, capacity)));
    const std::size_t wanted = static_cast<std::size_t>(size) * capacity;
    if (everything.size() != wanted) {
      raise(DABKE_ERROR_INVALID_ARGUMENT,
            "exchange returned " + std::to_string(everything.size()) + " bytes instead of " +
                std::to_string(wanted) +
                "; it must return the bytes of all processes, in the order of their numbers");
    }
    std::memcpy(all, everything.data(), wanted);
  }
};

int call_exchange(void* context, const void* mine, void* all, std::size_t capacity) {
  auto& exchange = *static_cast<Exchange*>(context);
  const PyGILState_STATE lock = PyGILState_Ensure();
  int failed = 0;
  try {
    exchange.run(mine, all, capacity);
  } catch (nb::python_error& error) {
    exchange.error.emplace(error);
    failed = 1;
  }
  PyGILState_Release(lock);
  return failed;
}

void init(nb::typed<nb::list, nb::str> settings, const std::vector<std::vector<std::int32_t>>& process_sets,
          std::optional<nb::typed<nb::callable, nb::bytes(nb::bytes)>> exchange_function, std::int64_t rank,
          std::int64_t size, const std::optional<std::vector<std::int32_t>>& ranks) {
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  const std::vector<const char*> pairs = all_utf8_of(settings, "init: a setting");
  options.settings = pairs.data();
  std::vector<const std::int32_t*> set_ranks;
  std::vector<std::size_t> set_sizes;
  for (const auto& set : process_sets) {
    set_ranks.push_back(set.data());
    set_sizes.push_back(set.size());
  }
  options.process_set_ranks = set_ranks.data();
  options.process_set_sizes = set_sizes.data();
  options.process_set_count = process_sets.size();
  Exchange exchange{exchange_function ? nb::object(*exchange_function) : nb::none(), size, std::nullopt};
  if (exchange_function) {
    options.rank = rank;
    options.size = size;
    options.exchange = &call_exchange;
    options.exchange_context = &exchange;
    if (ranks) {
      options.ranks = ranks->data();
      options.ranks_count = ranks->size();
    }
  }
  Interruption interruption;
  options.check = Interruption::check();
  options.check_context = interruption.context();
  options.language = "python";
  const dabke_status status = without_gil([&] { return dabke_init(&options); });
  interruption.raise_again();
  if (exchange.error) {
    exchange.error->restore();
    nb::raise_python_error();
  }
  check(status);
}

/// Throws the error of a call outside a job: before init, after shutdown, or in a forked child.
void check_in_job() {
  std::int32_t size = 0;
  check(dabke_process_set_size(DABKE_WORLD, &size));
}

template <int (*query)(const char*)>
bool answer(nb::str name) {
  return query(utf8_of(name, "the name")) != 0;
}

template <int (*query)()>
int in_job() {
  const int number = query();
  if (number < 0) check_in_job();
  return number;
}

}  // namespace

void note_submit() { thread_has_submitted() = true; }

void bind_job(nb::module_& module) {
  module.def(
      "init", &init, nb::arg("settings"), nb::arg("process_sets"), nb::arg("exchange").none(),
      nb::arg("rank"), nb::arg("size"), nb::arg("ranks").none(),
      "Joins the job that the environment describes, or the job of the processes that `exchange` reaches.");
  module.def(
      "shutdown", [] { check(without_gil([] { return dabke_shutdown(); })); },
      "Leaves the job. Does nothing outside a job.");
  module.def(
      "abort",
      [](nb::str reason) {
        const std::string text = shown(reason);  // no reason is refused: the job must end
        check(without_gil([&] { return dabke_abort(text.c_str()); }));
      },
      nb::arg("reason"), "Fails every operation on every rank. The job is then over.");
  module.def(
      "is_initialized", [] { return dabke_is_initialized() != 0; }, "True if this process is in a job.");
  module.def("rank", &in_job<&dabke_rank>, "This process's rank in the job.");
  module.def("size", &in_job<&dabke_size>, "The number of ranks in the job.");
  module.def("local_rank", &in_job<&dabke_local_rank>, "This process's rank on its host.");
  module.def("local_size", &in_job<&dabke_local_size>, "The number of ranks on this host.");
  module.def("cross_rank", &in_job<&dabke_cross_rank>,
             "This host's number among the hosts that have this local rank.");
  module.def("cross_size", &in_job<&dabke_cross_size>, "The number of hosts that have this local rank.");
  module.def(
      "is_homogeneous", [] { return in_job<&dabke_is_homogeneous>() != 0; },
      "True if every host has the same number of ranks.");
  module.def(
      "version", [] { return std::string(dabke_version()); }, "The library's version, such as \"0.1.0\".");
  module.def("backend_built", &answer<&dabke_backend_built>, nb::arg("name"),
             "True if this build has the backend.");
  module.def("backend_enabled", &answer<&dabke_backend_enabled>, nb::arg("name"),
             "True if the running job uses the backend.");
  module.def("controller_built", &answer<&dabke_controller_built>, nb::arg("name"),
             "True if this build has the controller.");
  module.def("controller_enabled", &answer<&dabke_controller_enabled>, nb::arg("name"),
             "True if the running job uses the controller.");
  module.def(
      "mpi_threads_supported", [] { return dabke_mpi_threads_supported(); },
      "1 if MPI may be called from several threads, 0 if it may not, -1 without MPI.");
  module.def(
      "status_name",
      [](int status) { return std::string(dabke_status_name(static_cast<dabke_status>(status))); },
      nb::arg("status"), "The name of a number of dabke_status; \"unknown\" for other numbers.");
  forget_threads_when_forked();
  module.def(
      "hold_back_other_threads", &hold_back_other_threads,
      "Prepares the end of the interpreter: other threads no longer return from a call of the library.");
  module.def(
      "thread_has_submitted", [] { return thread_has_submitted(); },
      "True if the calling thread has submitted an operation.");
}

}  // namespace dabke::python
