// The actions that the negotiation asks for: the output of the Negotiator.
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
  RequestRef request;  // this rank's own; on a joined rank the others', without rows if the first dimension
                       // is free
  int contributors = 0;
  std::uint64_t changes = 0;  // of the job's hosts, announced before this order of the world
};
/// The batch in which one tensor of an ExecuteAction travels.
struct BatchedTensor {
  std::uint32_t batch;
  std::uint32_t request;  // index in `requests`
  std::uint32_t tensor;   // the tensor's index in the request
};

struct SendAction {
  Rank peer;
  std::shared_ptr<const std::vector<std::byte>> message;
};
/// On all ranks of a process set, that set's requests, batches and their order are equal. The root has
/// decided the batches: a rank that planned them would plan from what it sees, which others do not see.
struct ExecuteAction {
  std::vector<OrderedRequest> requests;
  std::vector<BatchedTensor> tensors;  // those of a batch are neighbours, and batches lie as they run
};
struct CompleteAction {
  Token token;
  Status status;
  std::int64_t value = 0;     // join: the last rank; add_process_set: the id
  std::uint64_t changes = 0;  // as in an OrderedRequest
};
struct ProcessSetAction {
  ProcessSetId id;
  std::vector<Rank> ranks;        // empty if the set is removed
  bool is_among_members = false;  // its members alone have added it
};
struct WarnAction {
  std::string text;
  std::string brief = {};  // for a log if a launcher reports the rest; if empty: the text
};
/// This rank is to write down what it has been doing. Comes before the completion of `snapshot`'s tokens.
struct DumpAction {
  std::string reason;
  std::uint64_t incident = 0;  // equal on all ranks
  bool job_fails = false;      // `reason` is then the cause
  bool asked = false;          // a user wants it; false after a warning
  Snapshot snapshot;
};
/// Fails the members of this group that have come. The group was incomplete, so the negotiator had no token
/// for it.
struct FailGroupAction {
  ProcessSetId process_set;
  std::string group;
  Status status;
};
/// The timeline changes here: after all earlier executions, and before all later ones.
struct TimelineAction {
  wire::TimelineChange change;
};
/// Asks where this rank's threads are; give_stack() answers. No thread may be disturbed for that.
struct StackAction {
  std::uint64_t number = 0;  // counts these actions
};
/// Asks for this rank's figures; give_figures() answers.
struct FiguresAction {};
/// The negotiation is over. The actions that follow complete everything that was pending. `cause` is ok after
/// a clean goodbye; otherwise runs in flight are to be aborted with it. If the last runs fail after a clean
/// goodbye, a second OverAction comes.
struct OverAction {
  Status cause;
};
using Action =
    std::variant<SendAction, ExecuteAction, CompleteAction, ProcessSetAction, WarnAction, DumpAction,
                 StackAction, OverAction, FailGroupAction, TimelineAction, FiguresAction>;

}  // namespace dabke::negotiation
