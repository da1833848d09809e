// The entry points of start and end, queries, memory and diagnosis.
#include "dabke/dabke.h"

#include <algorithm>

#include "bindings/c/exchange_options.h"
#include "bindings/c/open_runtime.h"
#include "bindings/c/state.h"
#include "bindings/c/structs.h"
#include "build_parts.h"
#include "ops/registry.h"
#include "runtime/base/text/utf8.h"

using namespace dabke;

namespace {

/// The most bytes that a stack provider may write.
constexpr std::size_t kMostStackBytes = std::size_t{16} << 10;

template <class Read>
int world_number(Read read) {
  const auto runtime = current_runtime();
  return runtime ? read(runtime->world()) : -1;
}

}  // namespace

extern "C" {

const char* dabke_last_error(void) { return last_error(); }

dabke_status dabke_init(const dabke_init_options* options) {
  return entry([&]() -> Status {
    dabke_init_options given = DABKE_INIT_OPTIONS_INIT;
    if (Status status = read_struct(options, given, "dabke_init_options"); !status.is_ok()) return status;
    DABKE_ASSIGN_OR_RETURN(const auto group, exchange_group_of(given));
    return start_runtime([&](const std::shared_ptr<ForkGuard>& fork_guard, BetweenEpochs& kept) {
      return open_runtime(given, group, fork_guard, kept);
    });
  });
}

dabke_status dabke_shutdown(void) { return entry(stop_runtime); }
int dabke_is_initialized(void) { return current_runtime() ? 1 : 0; }

dabke_status dabke_abort(const char* reason) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    runtime->abort(reason ? escaped_utf8(reason) : "no reason was given");
    return {};
  });
}

int dabke_rank(void) {
  return world_number([](const World& world) { return world.rank; });
}
int dabke_size(void) {
  return world_number([](const World& world) { return world.size; });
}
int dabke_local_rank(void) {
  return world_number([](const World& world) { return world.local_rank; });
}
int dabke_local_size(void) {
  return world_number([](const World& world) { return world.local_size; });
}
int dabke_cross_rank(void) {
  return world_number([](const World& world) { return world.cross_rank; });
}
int dabke_cross_size(void) {
  return world_number([](const World& world) { return world.cross_size; });
}
int dabke_is_homogeneous(void) {
  return world_number([](const World& world) { return world.is_homogeneous ? 1 : 0; });
}

#define DABKE_TEXT_(x) #x
#define DABKE_TEXT(x) DABKE_TEXT_(x)
const char* dabke_version(void) {
  return DABKE_TEXT(DABKE_VERSION_MAJOR) "." DABKE_TEXT(DABKE_VERSION_MINOR) "." DABKE_TEXT(
      DABKE_VERSION_PATCH);
}
int dabke_version_number(void) {
  return DABKE_VERSION_MAJOR * 10000 + DABKE_VERSION_MINOR * 100 + DABKE_VERSION_PATCH;
}

int dabke_backend_built(const char* name) {
  return entry_or(0, [&]() -> int { return name != nullptr && ops::is_backend_built(name); });
}
int dabke_backend_enabled(const char* name) {
  return entry_or(0, [&]() -> int {
    const auto runtime = current_runtime();
    if (!runtime || name == nullptr) return 0;
    return std::ranges::count(runtime->backend_names(), std::string_view(name)) != 0;
  });
}
int dabke_controller_built(const char* name) { return name != nullptr && is_built(kControllers, name); }
int dabke_controller_enabled(const char* name) {
  const auto runtime = current_runtime();
  // A channel may have several names: "shm+tcp".
  return runtime && dabke_controller_built(name) != 0 &&
         runtime->channel_name().find(name) != std::string_view::npos;
}
int dabke_mpi_threads_supported(void) {
  const auto runtime = current_runtime();
  const modules::MpiSession* const mpi = runtime ? runtime->mpi() : nullptr;
  return mpi == nullptr ? -1 : mpi->any_thread() ? 1 : 0;
}

void* dabke_alloc(size_t size_bytes) {
  auto memory = without_exceptions([&] { return shared_heap()->allocate(size_bytes); });
  if (memory) return *memory;
  (void)entry([&]() -> Status {
    return {memory.status().code(), fmt::format("dabke_alloc: {}", memory.status().message())};
  });
  return nullptr;
}
void dabke_free(void* memory) {
  if (memory == nullptr) return;
  const Status status = without_exceptions([&] { return shared_heap()->free(memory); });
  if (status.is_ok()) return;
  (void)entry([&]() -> Status { return {status.code(), fmt::format("dabke_free: {}", status.message())}; });
}

dabke_status dabke_start_timeline(const char* path, int mark_cycles) {
  return entry([&]() -> Status {
    DABKE_RETURN_IF_ERROR(may_wait());
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    if (path == nullptr || *path == '\0')
      return {Code::invalid_argument, "dabke_start_timeline: the path is empty"};
    return runtime->start_timeline(path, mark_cycles != 0);
  });
}
dabke_status dabke_stop_timeline(void) {
  return entry([&]() -> Status {
    DABKE_RETURN_IF_ERROR(may_wait());
    const auto runtime = current_runtime();
    return runtime ? runtime->stop_timeline() : no_runtime();
  });
}
dabke_status dabke_annotate_begin(const char* name) {
  return entry([&]() -> Status {
    if (name == nullptr) return {Code::invalid_argument, "dabke_annotate_begin: the name is NULL"};
    active_timeline()->begin_span(name);
    return {};
  });
}
dabke_status dabke_annotate_end(void) {
  return entry([&]() -> Status { return active_timeline()->end_span(); });
}
dabke_status dabke_mark_step(uint64_t step) {
  return entry([&]() -> Status {
    active_timeline()->mark_step(step);
    return {};
  });
}

size_t dabke_config_count(void) {
  return entry_or<size_t>(0, [] { return knobs().size(); });
}
dabke_status dabke_config_get(size_t index, dabke_config_row* row) {
  return entry([&]() -> Status {
    if (index >= knobs().size()) {
      return {Code::invalid_argument, fmt::format("dabke_config_get: there are {} rows", knobs().size())};
    }
    const Knob& knob = knobs()[index];
    const auto runtime = current_runtime();
    thread_local std::string texts[6];
    texts[0] = knob.env_name();
    texts[1] = knob.horovod.empty() ? "" : "HOROVOD_" + std::string(knob.horovod);
    texts[2] = "--" + std::string(knob.flag);
    texts[3] = knob_value(runtime ? runtime->config() : Config{}, knob);
    texts[4] = knob_value(Config{}, knob);
    texts[5] = knob.accepts();
    const dabke_config_row out{sizeof(dabke_config_row), texts[0].c_str(), texts[1].c_str(),
                               texts[2].c_str(),         texts[3].c_str(), texts[4].c_str(),
                               texts[5].c_str(),         knob.help.data()};
    return write_struct(out, row, "dabke_config_row");
  });
}

dabke_status dabke_get_statistics(dabke_statistics* statistics) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    const reports::Statistics& now = runtime->statistics();
    const dabke_statistics out{sizeof(dabke_statistics),
                               now.tensors_submitted,
                               now.tensors_completed,
                               now.tensors_failed,
                               now.batches,
                               now.bytes,
                               now.messages_sent,
                               now.messages_received,
                               now.negotiation_seconds,
                               now.execution_seconds,
                               runtime->profile().cache_hits_and_misses().first,
                               runtime->profile().cache_hits_and_misses().second,
                               runtime->profile().fastest_wait()};
    return write_struct(out, statistics, "dabke_statistics");
  });
}

dabke_status dabke_get_collective_statistics(size_t index, dabke_collective_statistics* row) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    const auto rows = runtime->profile().rows();
    if (index >= rows.size()) {
      return {Code::invalid_argument,
              fmt::format("dabke_get_collective_statistics: there are {} rows", rows.size())};
    }
    const reports::Profile::Row& from = rows[index];
    thread_local std::string backend;
    backend = from.backend;
    const dabke_collective_statistics out{sizeof(dabke_collective_statistics),
                                          name_of(from.kind).data(),
                                          backend.c_str(),
                                          from.batches,
                                          from.tensors,
                                          from.bytes,
                                          from.seconds};
    return write_struct(out, row, "dabke_collective_statistics");
  });
}

dabke_status dabke_get_late_seconds(int rank, double* seconds) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    if (rank < 0 || rank >= runtime->world().size || seconds == nullptr) {
      return {Code::invalid_argument, seconds == nullptr
                                          ? std::string("dabke_get_late_seconds: seconds is NULL")
                                          : fmt::format("dabke_get_late_seconds: there is no rank {}", rank)};
    }
    const auto lateness = runtime->profile().lateness();
    const auto found = lateness.find(rank);
    *seconds = found == lateness.end() ? 0 : found->second.seconds;
    return {};
  });
}

dabke_status dabke_dump(const char* path) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    if (path == nullptr || *path == '\0')
      return {Code::invalid_argument, "dabke_dump: path is NULL or empty"};
    return runtime->dump(path);
  });
}

dabke_status dabke_set_stack_provider(dabke_stack_provider provider, void* context) {
  return entry([&]() -> Status {
    if (provider == nullptr) {
      stack_source()->set(nullptr);
      return {};
    }
    stack_source()->set([provider, context] {
      const InApplication inside("a stack provider");
      std::string text(kMostStackBytes, '\0');
      text.resize(std::min(provider(context, text.data(), text.size()), text.size()));
      return text;
    });
    return {};
  });
}

}  // extern "C"
