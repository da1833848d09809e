// A record: one fact about a rank with its time. It has a fixed size and owns no memory. The same bytes go
// through the recorder's queue and into the rank's file (record_form.h).
//
// The facts of a tensor are recorded once for each tensor: submit, ready, order, done or error. The
// activities of a
// batch are recorded once for all of its tensors. These are the tensors whose order is in that batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/world.h"

namespace dabke::timeline {

// clang-format off
//   id         value  when; below it: the meaning of fields, beyond their own names
#define DABKE_RECORDS(X)                                                                                    \
  X(submit,     1,  "a thread submits a tensor",                                                            \
      "`thread`: that thread")                                                                              \
  X(ready,      2,  "rank 0 is notified that a tensor is ready on a rank and on the ranks below it",        \
      "`number`: that rank within its process set, or 4294967295 for none; flags 2 and 4")                  \
  X(order,      3,  "a tensor has been ordered, and is in a batch",                                         \
      "`number`: see `batch`")                                                                              \
  X(queue,      4,  "a batch waits for the batches before it",                                              \
      "begins and ends")                                                                                    \
  X(allocate,   5,  "Dabke allocates an output whose size was not known before",                            \
      "begins and ends")                                                                                    \
  X(pack,       6,  "a batch is copied into the fusion buffer",                                             \
      "begins and ends")                                                                                    \
  X(run,        7,  "the data of a batch moves",                                                            \
      "begins and ends; `name`: a text, such as SHM_ALLREDUCE; "                                            \
      "`backend`, and with the end `algorithm`: what moves the data")                                       \
  X(unpack,     8,  "a batch is copied out of the fusion buffer",                                           \
      "begins and ends")                                                                                    \
  X(done,       9,  "a tensor's result is there",                                                           \
      "`number`: its shape; `backend`: the backend that was chosen for the batch")                          \
  X(error,     10,  "a tensor has failed",                                                                  \
      "`number`: the error's text; `bytes`: its status code; `order`: 0 if the tensor never had one")       \
  X(span,      11,  "a span of the application",                                                            \
      "begins and ends; `name`: the name of the span; an end has none")                                     \
  X(step,      12,  "the application has ended a training step",                                            \
      "`bytes`: the number of the step")                                                                    \
  X(cycle,     13,  "orders have arrived",                                                                  \
      "only with `--timeline-mark-cycles`")                                                                 \
  X(clock,     14,  "the rank compares its clock with the clock of its parent's host",                      \
      "`number`: the parent's rank; `bytes`: nanoseconds by which that clock is ahead, signed; "            \
      "`batch`: the largest error of that, in nanoseconds")                                                 \
  X(lost,      15,  "records before this one found the queue full",                                         \
      "`bytes`: their number")                                                                              \
  X(wait,      16,  "a thread of the application waits for tensors to end",                                 \
      "begins and ends; `thread`: that thread")                                                             \
  X(wait_for_data, 17, "a device waits for a batch's inputs",                                               \
      "begins and ends")                                                                                    \
  X(leave,     18,  "the rank leaves an epoch of an elastic job",                                           \
      "`number`: the text of the error that ends the epoch, or 0; `bytes`: its status code")
// clang-format on

struct Record {
  enum class What : std::uint8_t {
#define X(id, value, ...) id = value,
    DABKE_RECORDS(X)
#undef X
  };
  enum Flag : std::uint8_t {
    kEnd = 1,    // the end of what the same record without this flag has begun
    kFirst = 2,  // ready: the first rank that is ready
    kLast = 4,   // ready: all ranks are ready now
  };
  /// The rank of a `ready` record that is only the beginning or the end of a negotiation.
  static constexpr std::uint32_t kNobody = 0xffffffff;

  std::int64_t time_ns = 0;
  std::uint64_t order = 0;
  std::uint64_t batch = 0;
  std::uint64_t bytes = 0;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
  ProcessSetId process_set = kWorldSet;
  std::uint32_t number = 0;
  What what = What::cycle;
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::u8;
  std::uint8_t flags = 0;
  std::uint16_t backend = 0;
  std::uint16_t algorithm = 0;

  bool is_end() const { return (flags & kEnd) != 0; }
  /// True for the activities of a batch that waits and does no work yet.
  static constexpr bool is_before_work(What what) {
    return what == What::queue || what == What::wait_for_data;
  }
  bool operator==(const Record&) const = default;
};

// The record and the turn of its queue cell fill one cache line.
static_assert(sizeof(Record) == 56 && std::is_trivially_copyable_v<Record>);

}  // namespace dabke::timeline
