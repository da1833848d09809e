// The timeline, statistics, settings and dumps of a job.
#include <nanobind/stl/string.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/interpreter/gil.h"
#include "bindings/python/core/text.h"

namespace dabke::python {
namespace {

using Record = nb::typed<nb::dict, nb::str, nb::any>;
using Texts = nb::typed<nb::dict, nb::str, nb::str>;

Record statistics() {
  dabke_statistics counters{};
  counters.struct_size = sizeof counters;
  check(dabke_get_statistics(&counters));
  Record out;
  out["tensors_submitted"] = counters.tensors_submitted;
  out["tensors_completed"] = counters.tensors_completed;
  out["tensors_failed"] = counters.tensors_failed;
  out["batches"] = counters.batches;
  out["bytes"] = counters.bytes;
  out["messages_sent"] = counters.messages_sent;
  out["messages_received"] = counters.messages_received;
  out["negotiation_seconds"] = counters.negotiation_seconds;
  out["execution_seconds"] = counters.execution_seconds;
  out["cache_hits"] = counters.cache_hits;
  out["cache_misses"] = counters.cache_misses;
  out["fastest_negotiation_seconds"] = counters.fastest_negotiation_seconds;
  return out;
}

nb::typed<nb::list, Record> collective_statistics() {
  nb::typed<nb::list, Record> out;
  for (std::size_t index = 0;; ++index) {
    dabke_collective_statistics row{};
    row.struct_size = sizeof row;
    const dabke_status status = dabke_get_collective_statistics(index, &row);
    if (status == DABKE_ERROR_INVALID_ARGUMENT) return out;  // past the last row
    check(status);
    nb::dict entry;
    entry["collective"] = row.collective;
    entry["backend"] = row.backend;
    entry["batches"] = row.batches;
    entry["tensors"] = row.tensors;
    entry["bytes"] = row.bytes;
    entry["seconds"] = row.seconds;
    out.append(entry);
  }
}

double late_seconds(int rank) {
  double seconds = 0;
  check(dabke_get_late_seconds(rank, &seconds));
  return seconds;
}

nb::typed<nb::list, Texts> config() {
  nb::typed<nb::list, Texts> out;
  for (std::size_t index = 0; index < dabke_config_count(); ++index) {
    dabke_config_row row{};
    row.struct_size = sizeof row;
    check(dabke_config_get(index, &row));
    nb::dict entry;
    entry["name"] = row.name;
    entry["horovod_name"] = row.horovod_name;
    entry["flag"] = row.flag;
    entry["value"] = row.value;
    entry["default"] = row.default_value;
    entry["accepts"] = row.accepts;
    entry["help"] = row.help;
    out.append(entry);
  }
  return out;
}

}  // namespace

void bind_statistics(nb::module_& module) {
  module.def(
      "start_timeline",
      [](nb::str path, bool mark_cycles) {
        const char* const text = utf8_of(path, "start_timeline: the path");
        check(without_gil([&] { return dabke_start_timeline(text, mark_cycles ? 1 : 0); }));
      },
      nb::arg("path"), nb::arg("mark_cycles"), "Starts the timeline, and writes it to the file `path`.");
  module.def(
      "stop_timeline", [] { check(without_gil([] { return dabke_stop_timeline(); })); },
      "Stops the timeline.");
  module.def(
      "annotate_begin",
      [](nb::str name) { check(dabke_annotate_begin(utf8_of(name, "annotate: the name"))); }, nb::arg("name"),
      "Begins a span in the timeline, on the calling thread's row.");
  module.def(
      "annotate_end", [] { check(dabke_annotate_end()); }, "Ends the calling thread's innermost span.");
  module.def(
      "mark_step", [](std::uint64_t step) { check(dabke_mark_step(step)); }, nb::arg("step"),
      "Marks in the timeline that the training step of this number has ended.");
  module.def("statistics", &statistics, "The counters of the running job, by their names.");
  module.def("collective_statistics", &collective_statistics,
             "The counters of the running job: a row for each collective and backend that has run.");
  module.def("late_seconds", &late_seconds, nb::arg("rank"),
             "The seconds for which other ranks have waited for a rank.");
  module.def("config", &config, "The knobs: a row for each, with its value.");
  module.def(
      "dump",
      [](nb::str path) {
        const char* const text = utf8_of(path, "dump: the path");
        check(without_gil([&] { return dabke_dump(text); }));
      },
      nb::arg("path"), "Writes a dump of this rank to a file.");
}

}  // namespace dabke::python
