// The epochs of an elastic job.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/interpreter/gil.h"
#include "bindings/python/core/interpreter/interruption.h"

namespace dabke::python {
namespace {

using LostRank = std::tuple<int, nb::str, nb::str>;  // rank, host, why
/// number, rank, size, former ranks, newest commit, holders, lost ranks, why this process has left
using Epoch = std::tuple<std::uint64_t, int, int, std::vector<int>, std::optional<std::uint64_t>,
                         std::vector<int>, std::vector<LostRank>, std::optional<nb::str>>;

nb::str text_of(const char* text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
}

Epoch epoch_of(const dabke_epoch& from) {
  Epoch epoch;
  auto& [number, rank, size, former_ranks, newest_commit, holders, lost, left] = epoch;
  number = from.epoch;
  rank = from.rank;
  size = from.size;
  former_ranks.assign(from.former_ranks, from.former_ranks + from.size);
  if (from.has_commit != 0) newest_commit = from.newest_commit;
  holders.assign(from.holders, from.holders + from.holder_count);
  for (std::size_t i = 0; i < from.lost_count; ++i)
    lost.emplace_back(from.lost[i].rank, text_of(from.lost[i].host), text_of(from.lost[i].why));
  if (from.left_why != nullptr) left = text_of(from.left_why);
  return epoch;
}

Epoch next_epoch(std::optional<std::uint64_t> commit, std::uint64_t repeated_steps) {
  dabke_epoch_options options = DABKE_EPOCH_OPTIONS_INIT;
  options.has_commit = commit ? 1 : 0;
  options.commit = commit.value_or(0);
  options.repeated_steps = repeated_steps;
  Interruption interruption;
  options.check = Interruption::check();
  options.check_context = interruption.context();
  dabke_epoch epoch = DABKE_EPOCH_INIT;
  const dabke_status status = without_gil([&] { return dabke_next_epoch(&options, &epoch); });
  interruption.raise_again();
  check(status);
  return epoch_of(epoch);
}

Epoch current_epoch() {
  dabke_epoch epoch = DABKE_EPOCH_INIT;
  check(dabke_current_epoch(&epoch));
  return epoch_of(epoch);
}

}  // namespace

void bind_epochs(nb::module_& module) {
  module.def("next_epoch", &next_epoch, nb::arg("commit").none(), nb::arg("repeated_steps"),
             "Leaves this epoch and joins the next one. The result is in the order of dabke.Epoch.");
  module.def("current_epoch", &current_epoch, "The current epoch, in the order of dabke.Epoch.");
  module.def("announced_changes", &dabke_announced_changes,
             "The changes of the job's hosts that this rank has received in this epoch.");
  module.def(
      "is_elastic", [] { return dabke_is_elastic() != 0; }, "True in an elastic job of dabkerun.");
}

}  // namespace dabke::python
