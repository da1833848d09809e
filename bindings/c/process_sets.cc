// The entry points of process sets: add, remove and query.
#include <algorithm>

#include <fmt/format.h>

#include "bindings/c/state.h"
#include "dabke/dabke.h"
#include "runtime/call/process_set_list.h"

using namespace dabke;

namespace {

Result<std::vector<Rank>> set_ranks(const int32_t* ranks, std::size_t count, int world_size) {
  if (ranks == nullptr || count == 0)
    return Status(Code::invalid_argument, "a process set needs at least one rank");
  std::vector<Rank> sorted(ranks, ranks + count);
  std::ranges::sort(sorted);
  if (sorted.front() < 0 || sorted.back() >= world_size) {
    return Status(Code::invalid_argument, fmt::format("process set of ranks {}: ranks go from 0 to {}",
                                                      ranks_to_string(sorted), world_size - 1));
  }
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return Status(Code::invalid_argument, fmt::format("process set: rank {} was given twice", *twice));
  }
  return sorted;
}

/// Negotiates a change of the process sets and waits for it. Returns the operation's value.
Result<std::int64_t> change_sets(core::Runtime& runtime, CollectiveKind kind, std::vector<Rank> ranks) {
  DABKE_RETURN_IF_ERROR(may_wait());
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = kind;
  operation->request->name = name_of(kind);
  operation->request->ranks = std::move(ranks);
  DABKE_RETURN_IF_ERROR(runtime.run(operation));
  return operation->value;
}

Status add_set(core::Runtime& runtime, const int32_t* ranks, std::size_t count, dabke_process_set* id) {
  DABKE_ASSIGN_OR_RETURN(std::vector<Rank> sorted, set_ranks(ranks, count, runtime.world().size));
  DABKE_ASSIGN_OR_RETURN(const std::int64_t value,
                         change_sets(runtime, CollectiveKind::add_process_set, std::move(sorted)));
  if (id != nullptr) *id = static_cast<dabke_process_set>(value);
  return {};
}

/// A change of the process sets that only the members of the set negotiate.
Result<OperationRef> change_among_members(core::Runtime& runtime, CollectiveKind kind,
                                          std::vector<Rank> ranks) {
  if (!std::ranges::binary_search(ranks, runtime.world().rank)) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} of ranks {}: this is rank {}, which is not one of them; only these ranks may call",
                    name_of(kind), ranks_to_string(ranks), runtime.world().rank));
  }
  auto operation = OperationRef::adopt(new dabke_handle);
  operation->request->kind = kind;
  operation->request->name = name_of(kind);
  operation->request->ranks = std::move(ranks);
  return operation;
}

Result<OperationRef> add_among_members(core::Runtime& runtime, const int32_t* ranks, std::size_t count) {
  DABKE_ASSIGN_OR_RETURN(std::vector<Rank> sorted, set_ranks(ranks, count, runtime.world().size));
  return change_among_members(runtime, CollectiveKind::add_set_among_members, std::move(sorted));
}

Result<OperationRef> remove_among_members(core::Runtime& runtime, dabke_process_set id) {
  const auto set = runtime.process_sets().find(id);
  if (!set) return runtime.process_sets().missing(id);
  return change_among_members(runtime, CollectiveKind::remove_set_among_members, set->ranks);
}

/// Submits the operation that `make` returns for the runtime.
template <class Make>
Status start_change(dabke_handle** handle, Make make) {
  if (handle != nullptr) *handle = nullptr;
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_ASSIGN_OR_RETURN(OperationRef operation, make(*runtime));
  DABKE_RETURN_IF_ERROR(runtime->submit(operation));
  if (handle != nullptr) *handle = static_cast<dabke_handle*>(operation.detach());
  return {};
}

/// Runs the operation that `make` returns, and waits for it. Returns the operation's value.
template <class Make>
Result<std::int64_t> run_change(Make make) {
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_RETURN_IF_ERROR(may_wait());
  DABKE_ASSIGN_OR_RETURN(const OperationRef operation, make(*runtime));
  DABKE_RETURN_IF_ERROR(runtime->run(operation));
  return operation->value;
}

Result<std::shared_ptr<const ProcessSetInfo>> find_set(dabke_process_set id) {
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  auto set = runtime->process_sets().find(id);
  if (!set) return runtime->process_sets().missing(id);
  return set;
}

}  // namespace

extern "C" {

dabke_status dabke_add_process_set(const int32_t* ranks, size_t count, dabke_process_set* process_set) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    return runtime ? add_set(*runtime, ranks, count, process_set) : no_runtime();
  });
}

dabke_status dabke_remove_process_set(dabke_process_set process_set) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    if (process_set == DABKE_WORLD)
      return {Code::invalid_argument, "the world (process set 0) cannot be removed"};
    if (auto set = find_set(process_set); !set) return set.status();
    return change_sets(*runtime, CollectiveKind::remove_process_set, {process_set}).status();
  });
}

dabke_status dabke_add_process_set_among_members_async(const int32_t* ranks, size_t count,
                                                       dabke_handle** handle) {
  return entry([&]() -> Status {
    return start_change(handle,
                        [&](core::Runtime& runtime) { return add_among_members(runtime, ranks, count); });
  });
}
dabke_status dabke_add_process_set_among_members(const int32_t* ranks, size_t count,
                                                 dabke_process_set* process_set) {
  return entry([&]() -> Status {
    DABKE_ASSIGN_OR_RETURN(const std::int64_t id, run_change([&](core::Runtime& runtime) {
                             return add_among_members(runtime, ranks, count);
                           }));
    if (process_set != nullptr) *process_set = static_cast<dabke_process_set>(id);
    return {};
  });
}
dabke_status dabke_remove_process_set_among_members_async(dabke_process_set process_set,
                                                          dabke_handle** handle) {
  return entry([&]() -> Status {
    return start_change(handle,
                        [&](core::Runtime& runtime) { return remove_among_members(runtime, process_set); });
  });
}
dabke_status dabke_remove_process_set_among_members(dabke_process_set process_set) {
  return entry([&]() -> Status {
    return run_change([&](core::Runtime& runtime) { return remove_among_members(runtime, process_set); })
        .status();
  });
}
dabke_status dabke_handle_process_set(const dabke_handle* handle, dabke_process_set* process_set) {
  return entry([&]() -> Status {
    if (handle == nullptr) return {Code::invalid_argument, "the handle is NULL"};
    DABKE_RETURN_IF_ERROR(handle->status());
    if (!adds_set(handle->request->kind) || process_set == nullptr) {
      return {Code::invalid_argument,
              "only the adding of a process set has an id; pass its handle, and a pointer for the id"};
    }
    *process_set = static_cast<dabke_process_set>(handle->value);
    return {};
  });
}

dabke_status dabke_process_set_rank(dabke_process_set process_set, int32_t* rank) {
  return entry([&]() -> Status {
    auto set = find_set(process_set);
    if (set && rank) *rank = (*set)->rank;
    return set.status();
  });
}
dabke_status dabke_process_set_size(dabke_process_set process_set, int32_t* size) {
  return entry([&]() -> Status {
    auto set = find_set(process_set);
    if (set && size) *size = (*set)->size();
    return set.status();
  });
}
dabke_status dabke_process_set_included(dabke_process_set process_set, int* included) {
  return entry([&]() -> Status {
    auto set = find_set(process_set);
    if (set && included) *included = (*set)->rank >= 0;
    return set.status();
  });
}
dabke_status dabke_process_set_ranks(dabke_process_set process_set, int32_t* ranks, size_t capacity,
                                     size_t* count) {
  return entry([&]() -> Status {
    auto set = find_set(process_set);
    if (!set) return set.status();
    const std::vector<Rank>& all = (*set)->ranks;
    if (ranks) std::copy_n(all.begin(), std::min(capacity, all.size()), ranks);
    if (count) *count = all.size();
    return {};
  });
}
dabke_status dabke_process_set_ids(dabke_process_set* ids, size_t capacity, size_t* count) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    const std::vector<ProcessSetId> all = runtime->process_sets().ids();
    if (ids) std::copy_n(all.begin(), std::min(capacity, all.size()), ids);
    if (count) *count = all.size();
    return {};
  });
}

}  // extern "C"
