#include "runtime/negotiation/tables/inquiry.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/counted.h"
#include "runtime/base/text/wait_description.h"
#include "runtime/call/process_set_list.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

const std::string* signature_in(const wire::AnswerMessage& answer, ProcessSetId set) {
  const auto found = std::ranges::find(answer.sets, set);
  return found == answer.sets.end()
             ? nullptr
             : &answer.signatures[static_cast<std::size_t>(found - answer.sets.begin())];
}

bool has_joined(const wire::AnswerMessage& answer, ProcessSetId set) {
  return std::ranges::find(answer.joined, set) != answer.joined.end();
}

/// True if the rank is where the others wait.
bool is_there(const Inquiry& inquiry, const wire::AnswerMessage& answer) {
  switch (inquiry.subject) {
    case wire::StallSubject::tensor: return signature_in(answer, inquiry.process_set) != nullptr;
    case wire::StallSubject::join: return has_joined(answer, inquiry.process_set);
    case wire::StallSubject::batch: return !answer.inside.empty() && answer.inside_number == inquiry.number;
  }
  return false;
}

/// The activity of an awaited rank: `what` in words that time alone does not change, `text` with the times.
struct Instead {
  std::string what;
  std::string text;
};

std::string without_answer(const Inquiry& inquiry, Rank rank, const Topology& topology,
                           const ProcessOf& process_of) {
  for (Rank above = topology.parent(rank); above > 0; above = topology.parent(above)) {
    if (std::ranges::find(inquiry.asked, above) != inquiry.asked.end() && !inquiry.answers.contains(above))
      return fmt::format(" {} does not answer: it reports through rank {}, which does not answer either.",
                         topology.name(rank), above);
  }
  return fmt::format(" {} does not answer: {}.", topology.name(rank), process_of(rank));
}

Instead instead_of(const Inquiry& inquiry, Rank rank, const wire::AnswerMessage& answer) {
  WaitDescription at{.waits_for = answer.instead,
                     .waits_for_count = answer.instead_count,
                     .waits_s = -1,
                     .inside = answer.inside,
                     .inside_s = -1};
  const bool is_idle = at.waits_for.empty() && at.inside.empty();
  const auto text = [&] {
    return inquiry.subject == wire::StallSubject::batch && is_idle
               ? fmt::format(" Rank {}: it has finished it already, or has not started it.", rank)
               : fmt::format(" Rank {}: {}.", rank, describe(at));
  };
  Instead instead{text(), ""};
  at.inside_s = static_cast<double>(answer.inside_ms) / 1000;
  const std::string last = answer.idle_ms == 0 ? "It has made no call yet"
                                               : fmt::format("Its last call was {:.1f} s ago",
                                                             static_cast<double>(answer.idle_ms) / 1000);
  instead.text = fmt::format("{} {}.", text(), last);
  return instead;
}

/// "'x' (allreduce of float32 [4])", "join", "allreduce 'x' and 3 more (order 4)".
std::string subject_of(const Inquiry& inquiry, const std::string& signature) {
  if (inquiry.subject != wire::StallSubject::tensor) return inquiry.name;
  return signature.empty() ? shown(inquiry.name) : fmt::format("{} ({})", shown(inquiry.name), signature);
}

/// The ranks that have come to the subject of an inquiry, according to the answers.
struct Attendance {
  std::vector<Rank> have;
  std::vector<Rank> missing;
  std::string signature;
  bool is_elsewhere = false;  // some rank is inside another batch
};

Attendance attendance_of(const Inquiry& inquiry) {
  Attendance of{.have = inquiry.have, .missing = {}, .signature = inquiry.signature};
  for (const Rank rank : inquiry.asked) {
    const auto answer = inquiry.answers.find(rank);
    const bool answered = answer != inquiry.answers.end();
    if (answered && inquiry.subject == wire::StallSubject::tensor && !members_named(inquiry.name) &&
        has_joined(answer->second, inquiry.process_set))
      continue;  // no rank waits for it
    if (!answered || !is_there(inquiry, answer->second)) {
      of.missing.push_back(rank);
      of.is_elsewhere = of.is_elsewhere || (answered && !answer->second.inside.empty());
      continue;
    }
    of.have.push_back(rank);
    const std::string* const theirs = signature_in(answer->second, inquiry.process_set);
    if (of.signature.empty() && theirs != nullptr) of.signature = *theirs;
  }
  std::ranges::sort(of.have);
  return of;
}

}  // namespace

std::string seconds_to_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const int digits = seconds < 0.1 ? 3 : seconds < 1 ? 2 : seconds < 10 ? 1 : 0;
  return fmt::format("{:.{}f}", seconds, digits);
}

std::string set_to_text(ProcessSetId set) {
  return set == kWorldSet || is_pair(set) ? "" : fmt::format(" of process set {}", set);
}

std::string Inquiry::key() const {
  return fmt::format("{} {} {} {}", static_cast<int>(subject), process_set, number, name);
}

std::optional<Stall> stall_of(const Inquiry& inquiry, const Topology& topology, const ProcessOf& process_of,
                              TimePoint now) {
  const auto [have, missing, signature, is_elsewhere] = attendance_of(inquiry);
  const bool is_batch = inquiry.subject == wire::StallSubject::batch;
  if (have.empty() || (missing.empty() && !is_batch)) return std::nullopt;
  const std::string age = seconds_to_text(now - inquiry.since);
  const std::string set = set_to_text(inquiry.process_set);
  const std::string absent = topology.names(missing);
  Stall stall;
  stall.story = ranks_to_string(missing);
  stall.head = fmt::format("for {} s: {}{} {}", age, subject_of(inquiry, ""), set,
                           is_batch ? "has not finished" : "waits for " + absent);
  stall.text = fmt::format("Stalled for {} s: ", age);
  stall.text += is_batch ? fmt::format("{}{} has started on {} and has not finished.", inquiry.name, set,
                                       topology.names(have))
                         : fmt::format("{} {} in {}{}; {} {} not called it.", topology.names(have),
                                       have.size() == 1 ? "waits" : "wait", subject_of(inquiry, signature),
                                       set, absent, missing.size() == 1 ? "has" : "have");
  if (missing.empty()) {
    stall.text +=
        " All ranks of the set are inside it: the data moves slowly, or the network between them is stuck.";
  } else if (is_batch && is_elsewhere) {
    stall.text += fmt::format(" Look here first: {}.", kDifferentOperations);
  }
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(missing.size(), kShown); ++i) {
    const auto answer = inquiry.answers.find(missing[i]);
    if (answer == inquiry.answers.end()) {
      const std::string text = without_answer(inquiry, missing[i], topology, process_of);
      stall.text += text;
      stall.story += text;
      continue;
    }
    const Instead instead = instead_of(inquiry, missing[i], answer->second);
    stall.text += instead.text;
    stall.story += instead.what;
    if (!answer->second.stack.empty())
      stall.stacks += fmt::format(" Rank {} is here:\n{}", missing[i], answer->second.stack);
  }
  if (missing.size() > kShown)
    stall.text += fmt::format(" And {}.", counted(missing.size() - kShown, "more rank"));
  return stall;
}

std::optional<ProcessSetMismatch> process_set_mismatch(const Inquiry& inquiry, const ProcessSets& sets,
                                                       const Topology& topology) {
  constexpr std::chrono::milliseconds kQuiet(500);
  const ProcessSetId here = inquiry.process_set;
  for (const ProcessSetId other : sets.added_ids()) {
    if (other == here) continue;
    // One rank waits in the other set and is awaited here; another rank does the reverse. And no rank is
    // still to come: one that came after the error would meet the others' next request of the name. A rank
    // that has submitted something recently may still submit this name, because two sets may have one name in
    // opposite orders.
    bool waited_for_here = false;
    bool waited_for_there = false;
    bool somebody_is_to_come = false;
    for (const Rank rank : *sets.ranks_of(kWorldSet)) {
      const bool belongs_here = sets.contains(here, rank);
      const bool belongs_there = sets.contains(other, rank);
      const auto found = inquiry.answers.find(rank);
      if (found == inquiry.answers.end()) {
        somebody_is_to_come = somebody_is_to_come || belongs_here || belongs_there;
        continue;
      }
      const wire::AnswerMessage& answer = found->second;
      const bool in_here = signature_in(answer, here) != nullptr;
      const bool in_other = signature_in(answer, other) != nullptr;
      const bool here_only = in_here && belongs_there && !in_other;
      const bool there_only = in_other && belongs_here && !in_here;
      waited_for_here = waited_for_here || there_only;
      waited_for_there = waited_for_there || here_only;
      const bool is_quiet = std::chrono::milliseconds(answer.idle_ms) >= kQuiet;
      somebody_is_to_come = somebody_is_to_come || ((here_only || there_only) && !is_quiet);
      const bool may_come =
          (belongs_here && !has_joined(answer, here)) || (belongs_there && !has_joined(answer, other));
      somebody_is_to_come = somebody_is_to_come || (may_come && !in_here && !in_other);
    }
    if (!waited_for_here || !waited_for_there || somebody_is_to_come) continue;
    std::string text = fmt::format("Mismatched process set for {}:", shown(inquiry.name));
    for (const ProcessSetId id : {here, other}) {
      std::map<std::string, std::vector<Rank>> by_signature;
      for (const auto& [rank, answer] : inquiry.answers) {
        if (const std::string* signature = signature_in(answer, id)) by_signature[*signature].push_back(rank);
      }
      for (const auto& [signature, ranks] : by_signature) {
        text += fmt::format("{} {} submitted {} in process set {} (ranks {})", text.ends_with(":") ? "" : ";",
                            topology.names(ranks), signature, id, ranks_to_string(*sets.ranks_of(id)));
      }
    }
    return ProcessSetMismatch{other, text + ". Every rank must pass the same process set."};
  }
  return std::nullopt;
}

}  // namespace dabke::negotiation
