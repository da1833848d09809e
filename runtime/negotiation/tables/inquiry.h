// What the root asks when a name does not become ready, a join does not complete or a batch does not end: who
// is there, who is not, and what these do instead.
//
//   1. Whoever sees a name incomplete in its subtree for too long tells the root.
//   2. The root asks the ranks that it has not heard of; each answers for itself.
//   3. When all have answered, or kAnswerTime is over, the answers become a text. Who does not answer is
//      stopped, or cut off.
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

/// A rank without a core to itself takes its time; who has not answered then is reported as stopped or busy.
inline constexpr Duration kAnswerTime = std::chrono::seconds(5);

struct Inquiry {
  enum class Purpose { stall_report, stall_shutdown, process_set_mismatch };
  std::uint32_t id = 0;
  Purpose purpose = Purpose::stall_report;
  wire::StallSubject subject = wire::StallSubject::tensor;
  ProcessSetId process_set = kWorldSet;
  std::uint64_t number = 0;  // a batch's
  std::string name;
  std::string signature;  // the one of those that have it; empty until one has told
  TimePoint since{};      // the first report
  TimePoint deadline{};
  std::vector<Rank> have;  // known without asking
  std::vector<Rank> asked;
  std::map<Rank, wire::AnswerMessage> answers;

  /// Equal for all inquiries about one wait.
  std::string key() const;
  bool everybody_answered() const { return answers.size() >= asked.size(); }
};

/// "0.012", "0.25", "3.1" or "61": as many digits as tell short times apart.
std::string seconds_to_text(Duration duration);

/// A wait for others, in words.
struct Stall {
  std::string head;    // "for 61 s: 'x' waits for rank 1 on ada", for who reads the rest elsewhere
  std::string text;    // who waits for whom, and what these do instead
  std::string stacks;  // where their threads are; empty when none has told
  std::string story;   // equal as long as `text` says nothing new but times
};
/// What is known of the process of a rank that does not answer: "its process 4711 is stopped".
using ProcessOf = std::function<std::string(Rank)>;
/// Nothing when nobody is waited for any more.
std::optional<Stall> stall_of(const Inquiry& inquiry, const Topology& topology, const ProcessOf& process_of,
                              TimePoint now);

struct ProcessSetMismatch {
  ProcessSetId other;
  std::string text;
};
/// Whether ranks of this set wait for each other in another one, with the same name, now that all ranks of
/// both have come.
std::optional<ProcessSetMismatch> process_set_mismatch(const Inquiry& inquiry, const ProcessSets& sets,
                                                       const Topology& topology);

}  // namespace dabke::negotiation
