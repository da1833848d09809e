// The root's question about a name that does not become ready, a join that does not complete, or a batch that
// does not end. It finds out which ranks are there, which are not, and what those do instead.
//
//   1. A rank that sees a name incomplete in its subtree for too long notifies the root.
//   2. The root asks the ranks that have not reported to it; each answers for itself.
//   3. When all have answered, or kAnswerTime is over, the answers become a text. A rank that does not answer
//      is stopped, or cut off.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/tables/process_sets.h"
#include "runtime/negotiation/tables/topology.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// A rank without a core of its own may be slow. One that has not answered after this time is reported as
/// stopped or busy.
inline constexpr Duration kAnswerTime = std::chrono::seconds(5);

struct Inquiry {
  enum class Purpose { stall_report, stall_shutdown, process_set_mismatch };
  std::uint32_t id = 0;
  Purpose purpose = Purpose::stall_report;
  wire::StallSubject subject = wire::StallSubject::tensor;
  ProcessSetId process_set = kWorldSet;
  std::uint64_t number = 0;  // of a batch
  std::string name;
  std::string signature;  // of the ranks that have it; empty until one has sent it
  TimePoint since{};      // of the first report
  TimePoint deadline{};
  std::vector<Rank> have;  // ranks known to have it, without a question
  std::vector<Rank> asked;
  std::map<Rank, wire::AnswerMessage> answers;

  /// Equal for all inquiries about one wait.
  std::string key() const;
  bool everybody_answered() const { return answers.size() >= asked.size(); }
};

/// "0.012", "0.25", "3.1" or "61": with the digits that short times need.
std::string seconds_to_text(Duration duration);

/// " of process set 1"; empty for the world, and for a pair, whose ranks are in the name.
std::string set_to_text(ProcessSetId set);

/// A wait for other ranks, in words.
struct Stall {
  std::string head;    // "for 61 s: 'x' waits for rank 1 on ada"; a launcher reports the rest
  std::string text;    // which ranks wait for which, and what those do instead
  std::string stacks;  // where their threads are; empty if no rank has sent it
  std::string story;   // equal as long as nothing but times is new in `text`
};
/// Returns what is known of the process of a rank that does not answer: "its process 4711 is stopped".
using ProcessOf = std::function<std::string(Rank)>;
/// Returns nothing if no rank is awaited any more.
std::optional<Stall> stall_of(const Inquiry& inquiry, const Topology& topology, const ProcessOf& process_of,
                              TimePoint now);

struct ProcessSetMismatch {
  ProcessSetId other;
  std::string text;
};
/// Returns a mismatch if ranks of this set and ranks of another set wait for each other under the same name,
/// and all ranks of both sets have come.
std::optional<ProcessSetMismatch> process_set_mismatch(const Inquiry& inquiry, const ProcessSets& sets,
                                                       const Topology& topology);

}  // namespace dabke::negotiation
