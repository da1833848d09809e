// The machine's watch over names that do not become ready.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/machine.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {
namespace {

constexpr Duration kStackTime = std::chrono::seconds(3);
constexpr Duration kBetweenDumps = std::chrono::seconds(2);  // many ranks ask for the same reason
constexpr Duration kBetweenStallDumps = std::chrono::seconds(30);
constexpr std::size_t kMostInquiries = 16;  // at the same time
constexpr std::size_t kShownInstead = 6;

/// "allreduce 'x'", "barrier"; of a name that waits here.
std::string with_collective(const TensorEntry& entry) {
  const CollectiveKind kind = entry.waiting.front().request->kind;
  return moves_data(kind) ? fmt::format("{} {}", name_of(kind), shown(entry.name)) : shown(entry.name);
}

}  // namespace

void Machine::look_for_stalls(TimePoint now) {
  next_check_ = kNever;
  look_for_incomplete_groups(now);
  std::vector<Inquiry> found;
  tensors_.for_each([&](TensorEntry& entry) {
    Collection& collection = entry.collection;
    if (collection.empty()) return;
    Inquiry inquiry{.process_set = entry.process_set,
                    .name = entry.name,
                    .signature = request_of(entry).describe(),
                    .since = collection.since};
    const auto due = [&](TimePoint at) {
      if (now < at) next_check_ = std::min(next_check_, at);
      return now >= at;
    };
    if (entry.slot == kNoSlot && sets_.count() > 1 && due(collection.suspect_at)) {
      collection.suspect_at = now + std::max<Duration>(kSuspectAfter, now - collection.since);
      next_check_ = std::min(next_check_, collection.suspect_at);
      inquiry.purpose = Inquiry::Purpose::process_set_mismatch;
      found.push_back(inquiry);
    }
    if (options_.stall_check <= Duration::zero()) return;
    // What is waited for among the ranks below this one alone the root does not know of.
    if (options_.stall_shutdown > Duration::zero() && due(collection.since + options_.stall_shutdown)) {
      next_check_ = std::min(next_check_, now + kAnswerTime);
      inquiry.purpose = Inquiry::Purpose::stall_shutdown;
      found.push_back(inquiry);
    } else if (due(collection.warned + options_.stall_check)) {
      collection.warned = now;
      next_check_ = std::min(next_check_, now + options_.stall_check);
      inquiry.purpose = Inquiry::Purpose::stall_report;
      found.push_back(inquiry);
    }
  });
  std::ranges::sort(found, {},
                    [](const Inquiry& inquiry) { return std::tuple(inquiry.since, inquiry.name); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    Inquiry& inquiry = found[i];
    if (i >= kMostInquiries) {
      if (is_root()) {
        actions_.emplace_back(WarnAction{
            fmt::format("Stalled as well, for as long or less: {} names more, {} the next of them.",
                        found.size() - i, shown(inquiry.name))});
      }
      return;
    }
    if (is_root()) {
      inquire(std::move(inquiry), now);
    } else {
      tell({StallSubject::tensor, inquiry.process_set, 0, inquiry.name, age_ms(inquiry.since, now),
            inquiry.purpose == Inquiry::Purpose::process_set_mismatch},
           now);
    }
  }
}

void Machine::inquire(Inquiry inquiry, TimePoint now) {
  const bool mismatch = inquiry.purpose == Inquiry::Purpose::process_set_mismatch;
  const auto same = std::ranges::find_if(inquiries_, [&](const Inquiry& other) {
    const bool other_mismatch = other.purpose == Inquiry::Purpose::process_set_mismatch;
    return other.key() == inquiry.key() && other_mismatch == mismatch;
  });
  if (same != inquiries_.end()) {
    if (inquiry.purpose == Inquiry::Purpose::stall_shutdown) same->purpose = inquiry.purpose;
    return;
  }
  if (sets_.ranks_of(inquiry.process_set) == nullptr) return;
  const bool is_tensor = inquiry.subject == StallSubject::tensor;
  if (is_told_of(inquiry, now)) return;
  // Who is asked before the error comes would answer for requests that it ends, when the next are there.
  if (is_tensor && sequencer_->is_being_failed(inquiry.process_set, inquiry.name)) return;
  inquiry.id = next_inquiry_++;
  inquiry.deadline = now + kAnswerTime;
  const TensorEntry* entry = is_tensor ? tensors_.find(inquiry.process_set, inquiry.name) : nullptr;
  const bool known = entry != nullptr && !entry->collection.empty();
  if (known) {
    inquiry.since = entry->collection.since;
    inquiry.signature = request_of(*entry).describe();
  }
  const InquiryMessage message{inquiry.id, mismatch, inquiry.subject, inquiry.process_set, inquiry.name};
  bool ask_self = false;
  std::vector<bool> ask(static_cast<std::size_t>(collector_.reporters()));
  // A mismatch is between this set and another, whose ranks know of it.
  for (const Rank rank : *sets_.ranks_of(mismatch ? kWorldSet : inquiry.process_set)) {
    const int reporter = collector_.reporter_of(rank);
    const auto i = static_cast<std::size_t>(reporter);
    if (!mismatch && is_tensor && collector_.has_joined(inquiry.process_set, reporter)) continue;
    if (!mismatch && known && entry->collection.reported.contains(reporter)) {
      inquiry.have.push_back(rank);
      continue;
    }
    inquiry.asked.push_back(rank);
    if (reporter == 0) {
      ask_self = true;
    } else {
      ask[i] = true;
    }
  }
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (ask[static_cast<std::size_t>(reporter)]) send(collector_.rank_of(reporter), message);
  }
  inquiries_.push_back(std::move(inquiry));
  if (ask_self) answer(message, now);
  judge_inquiries(now);
}

/// Passes the question on, and answers it for this rank.
void Machine::answer(const InquiryMessage& message, TimePoint now) {
  if (over_) return;
  if (!is_root()) {
    for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
      if (message.everybody || collector_.concerns(message.process_set, reporter))
        send(collector_.rank_of(reporter), message);
    }
  }
  if (!message.everybody && !sets_.contains(message.process_set, options_.rank)) return;
  AnswerMessage mine;
  mine.id = message.id;
  mine.rank = options_.rank;
  mine.last_order = last_order_;
  if (last_submit_ != TimePoint{}) {
    mine.idle_ms = std::max<std::uint64_t>(1, age_ms(last_submit_, now));
  }
  const bool is_tensor = message.subject == StallSubject::tensor;
  for (const ProcessSetId set : sets_.ids()) {
    const TensorEntry* entry = is_tensor ? tensors_.find(set, message.name) : nullptr;
    if (entry == nullptr || entry->waiting.empty()) continue;
    mine.sets.push_back(set);
    mine.signatures.push_back(entry->waiting.front().request->describe());
  }
  for (const auto& [set, join] : joins_) mine.joined.push_back(set);
  tensors_.for_each([&](const TensorEntry& entry) {
    if (entry.waiting.empty()) return;
    const bool same_name = is_tensor && entry.name == message.name;
    if (same_name && entry.process_set == message.process_set) return;
    ++mine.instead_count;
    std::string other = with_collective(entry);
    if (entry.process_set != message.process_set)
      other += fmt::format(" in process set {}", entry.process_set);
    mine.instead.push_back(std::move(other));
  });
  groups_.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    ++mine.instead_count;
    mine.instead.push_back(group.describe(key.second));
  });
  std::ranges::sort(mine.instead);
  if (mine.instead.size() > kShownInstead) mine.instead.resize(kShownInstead);
  const bool is_waited_for = message.subject == StallSubject::join
                                 ? !joins_.contains(message.process_set)
                                 : std::ranges::find(mine.sets, message.process_set) == mine.sets.end();
  if (!options_.gives_stacks || message.everybody || !is_waited_for) return give_answer(std::move(mine));
  if (without_stack_.empty()) {
    stack_deadline_ = now + kStackTime;
    actions_.emplace_back(StackAction{});
  } else {  // the same moment, or nearly
    mine.inside = without_stack_.front().inside;
    mine.inside_number = without_stack_.front().inside_number;
    mine.inside_ms = without_stack_.front().inside_ms;
  }
  without_stack_.push_back(std::move(mine));
}

void Machine::give_answer(AnswerMessage answer) {
  if (!is_root()) return send(parent(), answer);
  const auto inquiry = std::ranges::find(inquiries_, answer.id, &Inquiry::id);
  if (inquiry != inquiries_.end()) inquiry->answers.insert_or_assign(answer.rank, std::move(answer));
}

void Machine::note_running(const Running& running, TimePoint now) {
  for (AnswerMessage& answer : without_stack_) {
    answer.inside = running.what;
    answer.inside_number = running.number;
    answer.inside_ms = age_ms(running.since, now);
  }
}

void Machine::give_stack(const std::string& text, TimePoint now) {
  stack_deadline_ = kNever;
  for (AnswerMessage& answer : std::exchange(without_stack_, {})) {
    answer.stack = text;
    give_answer(std::move(answer));
  }
  judge_inquiries(now);
}

// ---- dumps

Snapshot Machine::snapshot() const {
  Snapshot out;
  out.last_order = last_order_;
  tensors_.for_each([&](const TensorEntry& entry) {
    for (std::size_t i = 0; i < entry.waiting.size(); ++i) {
      const auto state = i > 0        ? Snapshot::State::queued
                         : entry.held ? Snapshot::State::kept_back
                                      : Snapshot::State::announced;
      out.pending.push_back({entry.waiting[i].token, entry.waiting[i].request, state});
    }
    const auto* ranks = sets_.ranks_of(entry.process_set);
    if (!entry.waiting.empty() && ranks != nullptr) out.sets[entry.process_set] = *ranks;
  });
  groups_.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    out.groups.push_back(
        {key.first, key.second, group.members.front()->kind, group.describe(key.second), group.since});
    if (const auto* ranks = sets_.ranks_of(key.first)) out.sets[key.first] = *ranks;
  });
  for (const auto& [set, join] : joins_) {
    auto request = std::make_shared<Request>();
    request->kind = CollectiveKind::join;
    request->name = name_of(CollectiveKind::join);
    request->process_set = set;
    out.pending.push_back({join.token, std::move(request), Snapshot::State::announced});
    if (const auto* ranks = sets_.ranks_of(set)) out.sets[set] = *ranks;
  }
  return out;
}

void Machine::ask_for_dumps(const std::string& reason, Dumped why, TimePoint now) {
  if (over_) return;
  const bool asked = why == Dumped::as_asked;
  if (!is_root()) return send(parent(), DumpMessage{0, asked, reason});
  if (now < next_dump_) return;
  next_dump_ = now + kBetweenDumps;
  dump({++incidents_, asked, reason});
}

void Machine::dump(const DumpMessage& message) {
  for (const Rank child : children()) send(child, message);
  dumps_.push_back({message.reason, message.incident, false, message.asked, {}});
}

void Machine::judge_inquiries(TimePoint now) {
  const auto is_done = [now](const Inquiry& inquiry) {
    return inquiry.everybody_answered() || now >= inquiry.deadline;
  };
  while (!over_) {  // judging one may settle others
    const auto done = std::ranges::find_if(inquiries_, is_done);
    if (done == inquiries_.end()) return;
    const Inquiry inquiry = std::move(*done);
    inquiries_.erase(done);
    judge(inquiry, now);
  }
}

/// Several ranks tell of one wait, each when its own patience ends.
bool Machine::is_told_of(const Inquiry& inquiry, TimePoint now) const {
  if (inquiry.purpose != Inquiry::Purpose::stall_report) return false;
  const StallLog::Told* const told = stall_log_.find(inquiry.key(), inquiry.since);
  return told != nullptr && now - told->at < options_.stall_check * 3 / 4;
}

void Machine::judge(const Inquiry& inquiry, TimePoint now) {
  if (inquiry.purpose == Inquiry::Purpose::process_set_mismatch) {
    const auto mismatch = process_set_mismatch(inquiry, sets_, *options_.topology);
    if (!mismatch) return;
    for (const ProcessSetId set : {inquiry.process_set, mismatch->other}) {
      sequencer_->force_error(set, inquiry.name, Code::mismatch, mismatch->text, now);
      std::erase_if(inquiries_,
                    [&](const Inquiry& other) {  // its answers are about what has just been failed
                      return other.process_set == set && other.name == inquiry.name;
                    });
    }
    return;
  }
  if (inquiry.subject == StallSubject::tensor) {
    const TensorEntry* entry = tensors_.find(inquiry.process_set, inquiry.name);
    const bool pending = entry != nullptr && !entry->collection.empty();
    if (!inquiry.have.empty() && !pending) return;  // it was ordered meanwhile
  }
  const auto stall = stall_of(
      inquiry, *options_.topology, [this](Rank rank) { return process_of(rank); }, now);
  if (!stall) return;
  const StallLog::Told* const told = stall_log_.find(inquiry.key(), inquiry.since);
  const bool is_told = told != nullptr && told->story == stall->story;
  if (inquiry.purpose == Inquiry::Purpose::stall_shutdown) {
    return abort({Code::stalled, is_told ? fmt::format("{} Where it was {} s ago is in the report of then.",
                                                       stall->text, seconds_to_text(now - told->full_at))
                                         : stall->text + stall->stacks});
  }
  std::string text =
      is_told ? fmt::format("{}, as reported {} s ago.", stall->head, seconds_to_text(now - told->full_at))
              : stall->text + stall->stacks;
  stall_log_.note(inquiry.key(), stall->story, !is_told, now);
  actions_.emplace_back(WarnAction{text});
  if (now < next_stall_dump_) return;
  next_stall_dump_ = now + std::max(options_.stall_check, kBetweenStallDumps);
  ask_for_dumps(text, Dumped::as_warned, now);
}

}  // namespace dabke
