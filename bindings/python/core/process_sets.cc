// Process sets: functions that add, remove and query them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/handle.h"
#include "bindings/python/core/interpreter/gil.h"

namespace dabke::python {
namespace {

using Ranks = std::vector<std::int32_t>;

int add(const Ranks& ranks) {
  dabke_process_set id = -1;
  check(without_gil([&] { return dabke_add_process_set(ranks.data(), ranks.size(), &id); }));
  return id;
}

void remove(dabke_process_set id) {
  check(without_gil([&] { return dabke_remove_process_set(id); }));
}

Handle handle_of(dabke_handle* handle) {
  return {std::make_shared<const Operation>(handle, Tensors{}), nb::none()};
}

Handle add_among_members(const Ranks& ranks) {
  dabke_handle* handle = nullptr;
  check(dabke_add_process_set_among_members_async(ranks.data(), ranks.size(), &handle));
  return handle_of(handle);
}

Handle remove_among_members(dabke_process_set id) {
  dabke_handle* handle = nullptr;
  check(dabke_remove_process_set_among_members_async(id, &handle));
  return handle_of(handle);
}

int rank_in(dabke_process_set id) {
  std::int32_t rank = -1;
  check(dabke_process_set_rank(id, &rank));
  return rank;
}

int size_of(dabke_process_set id) {
  std::int32_t size = 0;
  check(dabke_process_set_size(id, &size));
  return size;
}

bool included_in(dabke_process_set id) {
  int included = 0;
  check(dabke_process_set_included(id, &included));
  return included != 0;
}

Ranks ranks_of(dabke_process_set id) {
  std::size_t count = 0;
  check(dabke_process_set_ranks(id, nullptr, 0, &count));
  Ranks ranks(count);
  check(dabke_process_set_ranks(id, ranks.data(), ranks.size(), &count));
  return ranks;
}

std::vector<dabke_process_set> ids() {
  for (std::vector<dabke_process_set> ids(16);; ids.resize(2 * ids.size())) {
    std::size_t count = 0;
    check(dabke_process_set_ids(ids.data(), ids.size(), &count));
    if (count > ids.size()) continue;
    ids.resize(count);
    return ids;
  }
}

}  // namespace

void bind_process_sets(nb::module_& module) {
  module.def("add_process_set", &add, nb::arg("ranks"),
             "Adds a process set, and returns its id. All ranks of the world call it.");
  module.def("remove_process_set", &remove, nb::arg("process_set"),
             "Removes a process set. All ranks of the world call it.");
  module.def("add_process_set_among_members", &add_among_members, nb::arg("ranks"),
             "Adds a process set. Only its members call it. The handle's process_set_id() is the id.");
  module.def("remove_process_set_among_members", &remove_among_members, nb::arg("process_set"),
             "Removes a process set. Only its members call it.");
  module.def("process_set_rank", &rank_in, nb::arg("process_set"),
             "This process's rank in the set; -1 if it is not a member.");
  module.def("process_set_size", &size_of, nb::arg("process_set"), "The number of ranks in the set.");
  module.def("process_set_included", &included_in, nb::arg("process_set"),
             "True if this process is a member of the set.");
  module.def("process_set_ranks", &ranks_of, nb::arg("process_set"),
             "The world ranks of the set, ascending.");
  module.def("process_set_ids", &ids, "The ids of all process sets.");
}

}  // namespace dabke::python
