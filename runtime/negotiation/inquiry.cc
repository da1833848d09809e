#include "runtime/negotiation/inquiry.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/name_key.h"

namespace dabke {
namespace {

std::string who(const Topology& topology, const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? topology.name(ranks.front()) : "ranks " + ranks_to_string(ranks);
}

const std::string* signature_in(const AnswerMessage& answer, ProcessSetId set) {
  const auto found = std::ranges::find(answer.sets, set);
  return found == answer.sets.end()
             ? nullptr
             : &answer.signatures[static_cast<std::size_t>(found - answer.sets.begin())];
}

bool has_joined(const AnswerMessage& answer, ProcessSetId set) {
  return std::ranges::find(answer.joined, set) != answer.joined.end();
}

/// What a rank that is waited for does instead: in words that time alone does not change, and the times.
struct Instead {
  std::string what;
  std::string when;
};

Instead instead_of(Rank rank, const AnswerMessage* answer, const Topology& topology) {
  if (answer == nullptr) {
    return {fmt::format(" {} does not answer: its process is stopped or busy, or the network to it is.",
                        topology.name(rank)),
            ""};
  }
  std::string text;
  if (answer->instead.empty()) {
    text = fmt::format(" Rank {} has nothing else pending: it has not come to this call.", rank);
  } else {
    text = fmt::format(" Rank {} has submitted instead:", rank);
    for (std::size_t i = 0; i < answer->instead.size(); ++i) {
      text += fmt::format("{} {}", i ? "," : "", answer->instead[i]);
    }
    if (answer->instead_count > answer->instead.size()) {
      text += fmt::format(" and {} more", answer->instead_count - answer->instead.size());
    }
    text += ".";
  }
  return {text, fmt::format(" It last submitted something {:.1f} s ago; the last order it has is number {}.",
                            static_cast<double>(answer->idle_ms) / 1000, answer->last_order)};
}

}  // namespace

std::string seconds_to_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const int digits = seconds < 0.1 ? 3 : seconds < 1 ? 2 : seconds < 10 ? 1 : 0;
  return fmt::format("{:.{}f}", seconds, digits);
}

std::string Inquiry::key() const { return fmt::format("{} {}", process_set, name); }

std::optional<Stall> stall_of(const Inquiry& inquiry, const Topology& topology, TimePoint now) {
  std::vector<Rank> have = inquiry.have;
  std::vector<Rank> missing;
  std::string signature = inquiry.signature;
  for (const Rank rank : inquiry.asked) {
    const auto answer = inquiry.answers.find(rank);
    const std::string* here =
        answer == inquiry.answers.end() ? nullptr : signature_in(answer->second, inquiry.process_set);
    if (here == nullptr) {
      missing.push_back(rank);
    } else {
      have.push_back(rank);
      if (signature.empty()) signature = *here;
    }
  }
  if (missing.empty() || have.empty()) return std::nullopt;
  std::ranges::sort(have);
  const std::string age = seconds_to_text(now - inquiry.since);
  Stall stall;
  stall.head = fmt::format("Still stalled, for {} s: {} of process set {} waits for {}", age, shown(inquiry.name),
                           inquiry.process_set, who(topology, missing));
  stall.text = fmt::format(
      "Stalled for {} s: {} ({}) of process set {} was submitted by {} and is waited for from {}.", age,
      shown(inquiry.name), signature, inquiry.process_set, who(topology, have), who(topology, missing));
  stall.story = ranks_to_string(missing);
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(missing.size(), kShown); ++i) {
    const auto found = inquiry.answers.find(missing[i]);
    const AnswerMessage* const answer = found == inquiry.answers.end() ? nullptr : &found->second;
    const Instead instead = instead_of(missing[i], answer, topology);
    stall.text += instead.what + instead.when;
    stall.story += instead.what;
    if (answer != nullptr && !answer->stack.empty())
      stall.places += fmt::format(" Rank {} is here:\n{}", missing[i], answer->stack);
  }
  if (missing.size() > kShown) stall.text += fmt::format(" And {} ranks more.", missing.size() - kShown);
  return stall;
}

std::optional<ProcessSetMismatch> process_set_mismatch(const Inquiry& inquiry, const ProcessSets& sets,
                                                       const Topology& topology) {
  const ProcessSetId here = inquiry.process_set;
  for (const ProcessSetId other : sets.ids()) {
    if (other == here) continue;
    // Somebody waits in the other set and is waited for here, and the other way round; and nobody is still to
    // come, for whoever came after the error would meet the others' next request of the name.
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
      const AnswerMessage& answer = found->second;
      const bool in_here = signature_in(answer, here) != nullptr;
      const bool in_other = signature_in(answer, other) != nullptr;
      waited_for_here = waited_for_here || (in_other && belongs_here && !in_here);
      waited_for_there = waited_for_there || (in_here && belongs_there && !in_other);
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
                            who(topology, ranks), signature, id, ranks_to_string(*sets.ranks_of(id)));
      }
    }
    return ProcessSetMismatch{other, text + ". Every rank must pass the same process set."};
  }
  return std::nullopt;
}

}  // namespace dabke
