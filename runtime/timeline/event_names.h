// The names of events and of their arguments in the traces that people open. There are two traces: that of
// all ranks, and the one in Horovod's form. docs/reference/timeline-trace.md and timeline-horovod.md list the
// names in tables, and a test compares those with these. The names of collectives are in
// runtime/base/kinds.h. Tensors, spans and activities of a backend have names of their own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/timeline/record.h"

namespace dabke::timeline {

/// The traces that have an event or an argument, a bit each.
enum TraceShape : std::uint8_t { kAllRanks = 1, kHorovod = 2 };

// clang-format off
//   id                       name                         in which trace
#define DABKE_EVENTS(X)                                                             \
  X(queue,                    "QUEUE",                     kAllRanks | kHorovod)    \
  X(wait_for_data,            "WAIT_FOR_DATA",             kAllRanks | kHorovod)    \
  X(allocate_output,          "ALLOCATE_OUTPUT",           kAllRanks | kHorovod)    \
  X(memcpy_in_fusion_buffer,  "MEMCPY_IN_FUSION_BUFFER",   kAllRanks | kHorovod)    \
  X(memcpy_out_fusion_buffer, "MEMCPY_OUT_FUSION_BUFFER",  kAllRanks | kHorovod)    \
  X(run,                      "RUN",                       kAllRanks | kHorovod)    \
  X(wait,                     "WAIT",                      kAllRanks)               \
  X(error,                    "ERROR",                     kAllRanks | kHorovod)    \
  X(step,                     "STEP",                      kAllRanks | kHorovod)    \
  X(cycle_start,              "CYCLE_START",               kAllRanks | kHorovod)    \
  X(records_lost,             "RECORDS_LOST",              kAllRanks | kHorovod)    \
  X(tail_missing,             "TAIL_MISSING",              kAllRanks)               \
  X(last_ready,               "last ready",                kAllRanks)               \
  X(queue_length,             "queue",                     kAllRanks)               \
  X(bytes_in_flight,          "bytes in flight",           kAllRanks)               \
  X(bus_bandwidth,            "bus bandwidth (MB/s)",      kAllRanks)               \
  X(process_name,             "process_name",              kAllRanks | kHorovod)    \
  X(process_labels,           "process_labels",            kAllRanks)               \
  X(process_sort_index,       "process_sort_index",        kAllRanks | kHorovod)    \
  X(thread_name,              "thread_name",               kAllRanks)               \
  X(thread_sort_index,        "thread_sort_index",         kAllRanks)               \
  X(timeline_end,             "timeline_end",              kHorovod)

//   id           key             in which trace
#define DABKE_EVENT_ARGUMENTS(X)                                                \
  X(order,        "order",        kAllRanks)                                    \
  X(batch,        "batch",        kAllRanks)                                    \
  X(bytes,        "bytes",        kAllRanks | kHorovod)                         \
  X(set,          "set",          kAllRanks)                                    \
  X(backend,      "backend",      kAllRanks)                                    \
  X(algorithm,    "algorithm",    kAllRanks)                                    \
  X(tensors,      "tensors",      kAllRanks)                                    \
  X(first,        "first",        kAllRanks)                                    \
  X(last_rank,    "last_rank",    kAllRanks)                                    \
  X(last_by_us,   "last_by_us",   kAllRanks)                                    \
  X(dtype,        "dtype",        kAllRanks | kHorovod)                         \
  X(shape,        "shape",        kAllRanks | kHorovod)                         \
  X(thread,       "thread",       kAllRanks)                                    \
  X(unfinished,   "unfinished",   kAllRanks | kHorovod)                         \
  X(step,         "step",         kAllRanks | kHorovod)                         \
  X(code,         "code",         kAllRanks | kHorovod)                         \
  X(error,        "error",        kAllRanks | kHorovod)                         \
  X(count,        "count",        kAllRanks | kHorovod)                         \
  X(why,          "why",          kAllRanks)                                    \
  X(epoch,        "epoch",        kAllRanks)                                    \
  X(change,       "change",       kAllRanks)                                    \
  X(value,        "value",        kAllRanks)                                    \
  X(name,         "name",         kAllRanks | kHorovod)                         \
  X(labels,       "labels",       kAllRanks)                                    \
  X(sort_index,   "sort_index",   kAllRanks | kHorovod)                         \
  X(start_time,   "start_time_since_epoch_in_micros",  kHorovod)                \
  X(records,      "records",      kHorovod)                                     \
  X(lost,         "lost",         kHorovod)
// clang-format on

enum class Event : std::uint8_t {
#define X(id, ...) id,
  DABKE_EVENTS(X)
#undef X
};

enum class Argument : std::uint8_t {
#define X(id, ...) id,
  DABKE_EVENT_ARGUMENTS(X)
#undef X
};

inline constexpr auto kEvents = std::to_array<Event>({
#define X(id, ...) Event::id,
    DABKE_EVENTS(X)
#undef X
});

inline constexpr auto kArguments = std::to_array<Argument>({
#define X(id, ...) Argument::id,
    DABKE_EVENT_ARGUMENTS(X)
#undef X
});

constexpr std::string_view name_of(Event event) {
  switch (event) {
#define X(id, name, shapes) \
  case Event::id: return name;
    DABKE_EVENTS(X)
#undef X
  }
  return "UNKNOWN";
}

/// The key as it is written, such as `"bytes":`.
constexpr std::string_view key_of(Argument argument) {
  switch (argument) {
#define X(id, name, shapes) \
  case Argument::id: return "\"" name "\":";
    DABKE_EVENT_ARGUMENTS(X)
#undef X
  }
  return "\"unknown\":";
}

/// The key without quotes, such as `bytes`.
constexpr std::string_view name_of(Argument argument) {
  const std::string_view key = key_of(argument);
  return key.substr(1, key.size() - 3);
}

constexpr bool has(TraceShape shape, Event event) {
  switch (event) {
#define X(id, name, shapes) \
  case Event::id: return ((shapes)&shape) != 0;
    DABKE_EVENTS(X)
#undef X
  }
  return false;
}

constexpr bool has(TraceShape shape, Argument argument) {
  switch (argument) {
#define X(id, name, shapes) \
  case Argument::id: return ((shapes)&shape) != 0;
    DABKE_EVENT_ARGUMENTS(X)
#undef X
  }
  return false;
}

/// The first part of a negotiation's name, in both traces; the collective's name follows. The tensor is then
/// not ready everywhere.
inline constexpr std::string_view kNegotiatePrefix = "NEGOTIATE_";
/// The first part of a step's name, in the trace of all ranks; its number follows. A step lasts from mark to
/// mark.
inline constexpr std::string_view kStepPrefix = "step ";
/// The process of the whole job in the trace of all ranks, if the job is elastic.
inline constexpr std::string_view kJobProcess = "job";

/// The member of a trace with the time of day at its zero. PyTorch's profiler uses this name too.
inline constexpr std::string_view kBaseTime = "baseTimeNanoseconds";
/// The same by the clock of one rank's host, in otherData.clocks.
inline constexpr std::string_view kRankBaseTime = "base_time_ns";
/// The first part of the name of a change of an elastic job's ranks. The number of the epoch that begins and
/// what has changed follow: "epoch 2: rank 0 (host a) was killed ...".
inline constexpr std::string_view kChangePrefix = "epoch ";

/// Returns the name of a batch's activity; none for a run, which the backend names.
constexpr std::optional<Event> event_of(Record::What what) {
  switch (what) {
    case Record::What::queue: return Event::queue;
    case Record::What::wait_for_data: return Event::wait_for_data;
    case Record::What::allocate: return Event::allocate_output;
    case Record::What::pack: return Event::memcpy_in_fusion_buffer;
    case Record::What::unpack: return Event::memcpy_out_fusion_buffer;
    default: return {};
  }
}

/// Returns the activity with this name; every other name is a run.
constexpr Record::What part_named(std::string_view name) {
  for (const Record::What what : {Record::What::queue, Record::What::wait_for_data, Record::What::allocate,
                                  Record::What::pack, Record::What::unpack}) {
    if (name_of(*event_of(what)) == name) return what;
  }
  return Record::What::run;
}

}  // namespace dabke::timeline
