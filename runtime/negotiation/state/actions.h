// What the negotiation wants done: the Negotiator's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/negotiation/state/snapshot.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// A request that all ranks run now. `token` is none on a rank that has joined: it takes part with neutral
/// data.
struct OrderedRequest {
  std::uint64_t number = 0;
  Token token = Token::none;
  RequestRef agreed;   // the same on every rank
  RequestRef request;  // this rank's own; on a joined rank the others', with no rows where the first
                       // dimension is free
  int contributors = 0;
};
/// Where one tensor of an ExecuteAction travels.
struct BatchedTensor {
  std::uint32_t batch;
  std::uint32_t request;  // index in `requests`
  std::uint32_t tensor;   // the tensor's index in the request
};

struct SendAction {
  Rank peer;
  std::shared_ptr<const std::vector<std::byte>> message;
};
/// Equal on every rank of a process set as far as that set's requests go, batches and their order included:
/// the root has decided them, because a rank that planned from what it sees would plan from what others do
/// not see.
struct ExecuteAction {
  std::vector<OrderedRequest> requests;
  std::vector<BatchedTensor> tensors;  // those of a batch are neighbours, and batches lie as they run
};
struct CompleteAction {
  Token token;
  Status status;
  std::int64_t value = 0;  // join: the last rank; add_process_set: the id
};
struct ProcessSetAction {
  ProcessSetId id;
  std::vector<Rank> ranks;  // empty: removed
};
struct WarnAction {
  std::string text;
  std::string brief = {};  // for a log beside which a launcher tells the rest; empty: the text
};
/// This rank is to write down what it has been doing; comes before the tokens of `snapshot` complete.
struct DumpAction {
  std::string reason;
  std::uint64_t incident = 0;  // equal on all ranks
  bool job_fails = false;      // and that is the reason
  bool asked = false;          // somebody wants it, and not a warning
  Snapshot snapshot;
};
/// The members of this group that have come fail; it was incomplete, so the negotiator had no token of it.
struct FailGroupAction {
  ProcessSetId process_set;
  std::string group;
  Status status;
};
/// The timeline changes here: after what has been executed before, and before what comes later.
struct TimelineAction {
  wire::TimelineChange change;
};
/// Asks where this rank's threads are; give_stack() answers. No thread is to be disturbed for it.
struct StackAction {};
/// Asks for this rank's figures; give_figures() answers.
struct FiguresAction {};
/// The negotiation is over; the actions that follow complete everything that was pending.
/// `cause` is ok after a clean goodbye; otherwise runs in flight are to be aborted with it. A failure during
/// the last runs after a clean goodbye comes as a second OverAction.
struct OverAction {
  Status cause;
};
using Action =
    std::variant<SendAction, ExecuteAction, CompleteAction, ProcessSetAction, WarnAction, DumpAction,
                 StackAction, OverAction, FailGroupAction, TimelineAction, FiguresAction>;

}  // namespace dabke::negotiation
