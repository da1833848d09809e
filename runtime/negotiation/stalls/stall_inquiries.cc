#include "runtime/negotiation/stalls/stall_inquiries.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {

std::string process_of(const NegotiationState& state, Rank rank) {
  const std::string known = state.options.process_of ? state.options.process_of(rank) : "";
  return known.empty() ? "its process is stopped or busy, or the network to it is down" : known;
}

void StallInquiries::open(Inquiry inquiry, TimePoint now) {
  if (is_known(inquiry, now) || state_.sets.ranks_of(inquiry.process_set) == nullptr) return;
  const bool is_tensor = inquiry.subject == wire::StallSubject::tensor;
  // Not asked: the answers would be about the requests that the error ends, and come when the next requests
  // of the name are there.
  if (is_tensor && state_.sequencer->is_being_failed(inquiry.process_set, inquiry.name)) return;
  ask(std::move(inquiry), now);
  judge(now);
}

/// True if the inquiry is open, or was reported not long ago.
bool StallInquiries::is_known(const Inquiry& inquiry, TimePoint now) {
  const bool mismatch = inquiry.purpose == Inquiry::Purpose::process_set_mismatch;
  const auto same = std::ranges::find_if(inquiries_, [&](const Inquiry& other) {
    const bool other_mismatch = other.purpose == Inquiry::Purpose::process_set_mismatch;
    return other.key() == inquiry.key() && other_mismatch == mismatch;
  });
  if (same == inquiries_.end()) return has_been_reported(inquiry, now);
  if (inquiry.purpose == Inquiry::Purpose::stall_shutdown) same->purpose = inquiry.purpose;
  return true;
}

void StallInquiries::ask(Inquiry inquiry, TimePoint now) {
  const bool mismatch = inquiry.purpose == Inquiry::Purpose::process_set_mismatch;
  const bool is_tensor = inquiry.subject == wire::StallSubject::tensor;
  inquiry.id = next_id_++;
  inquiry.deadline = now + kAnswerTime;
  const TensorEntry* entry = is_tensor ? state_.tensors.find(inquiry.process_set, inquiry.name) : nullptr;
  const bool known = entry != nullptr && !entry->collection.empty();
  if (known) {
    inquiry.since = entry->collection.since;
    inquiry.signature = request_of(*entry).describe();
  }
  const wire::InquiryMessage message{inquiry.id, mismatch, inquiry.subject, inquiry.process_set,
                                     inquiry.name};
  bool ask_self = false;
  std::vector<bool> ask(static_cast<std::size_t>(state_.collector.reporters()));
  const auto members = members_named(inquiry.name);
  // A mismatch is between this set and another one, whose ranks have the answers.
  for (const Rank rank :
       members && !mismatch ? *members : *state_.sets.ranks_of(mismatch ? kWorldSet : inquiry.process_set)) {
    const int reporter = state_.collector.reporter_of(rank);
    const auto i = static_cast<std::size_t>(reporter);
    if (!mismatch && !members && is_tensor && state_.collector.has_joined(inquiry.process_set, reporter))
      continue;
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
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    if (ask[static_cast<std::size_t>(reporter)]) outbox_.send(state_.collector.rank_of(reporter), message);
  }
  answers_due_.set_by(inquiry.deadline);
  inquiries_.push_back(std::move(inquiry));
  if (!ask_self) return;
  if (auto mine = answers_.answer(message, now)) take(std::move(*mine));
}

void StallInquiries::take(wire::AnswerMessage answer) {
  const auto inquiry = std::ranges::find(inquiries_, answer.id, &Inquiry::id);
  if (inquiry != inquiries_.end()) inquiry->answers.insert_or_assign(answer.rank, std::move(answer));
}

void StallInquiries::note_deadline() {
  TimePoint next = kNever;
  for (const Inquiry& inquiry : inquiries_) next = std::min(next, inquiry.deadline);
  answers_due_.set(next);
}

void StallInquiries::forget_join(ProcessSetId set) {
  std::erase_if(inquiries_, [set](const Inquiry& inquiry) {
    return inquiry.subject == wire::StallSubject::join && inquiry.process_set == set;
  });
  note_deadline();
}

void StallInquiries::judge(TimePoint now) {
  const auto is_done = [now](const Inquiry& inquiry) {
    return inquiry.everybody_answered() || now >= inquiry.deadline;
  };
  while (!state_.over) {  // to judge one may settle others
    const auto done = std::ranges::find_if(inquiries_, is_done);
    if (done == inquiries_.end()) return note_deadline();
    const Inquiry inquiry = std::move(*done);
    inquiries_.erase(done);
    judge(inquiry, now);
  }
}

/// Several ranks report one wait, each when its own time limit is over.
bool StallInquiries::has_been_reported(const Inquiry& inquiry, TimePoint now) const {
  if (inquiry.purpose != Inquiry::Purpose::stall_report) return false;
  const StallLog::Reported* const last_report = log_.find(inquiry.key(), inquiry.since);
  return last_report != nullptr && now - last_report->at < state_.options.stall_check * 3 / 4;
}

void StallInquiries::judge(const Inquiry& inquiry, TimePoint now) {
  if (inquiry.purpose == Inquiry::Purpose::process_set_mismatch) return judge_mismatch(inquiry, now);
  if (inquiry.subject == wire::StallSubject::tensor) {
    const TensorEntry* entry = state_.tensors.find(inquiry.process_set, inquiry.name);
    const bool pending = entry != nullptr && !entry->collection.empty();
    if (!inquiry.have.empty() && !pending) return;  // it was ordered meanwhile
  }
  const auto stall = stall_of(
      inquiry, *state_.options.topology, [this](Rank rank) { return process_of(state_, rank); }, now);
  if (stall) report(inquiry, *stall, now);
}

void StallInquiries::judge_mismatch(const Inquiry& inquiry, TimePoint now) {
  const auto mismatch = process_set_mismatch(inquiry, state_.sets, *state_.options.topology);
  if (!mismatch) return;
  for (const ProcessSetId set : {inquiry.process_set, mismatch->other}) {
    state_.sequencer->force_error(set, inquiry.name, Code::mismatch, mismatch->text, now);
    std::erase_if(inquiries_, [&](const Inquiry& other) {  // its answers are about what has just failed
      return other.process_set == set && other.name == inquiry.name;
    });
  }
}

void StallInquiries::report(const Inquiry& inquiry, const Stall& stall, TimePoint now) {
  const StallLog::Reported* const last_report = log_.find(inquiry.key(), inquiry.since);
  const bool is_reported = last_report != nullptr && last_report->story == stall.story;
  if (inquiry.purpose == Inquiry::Purpose::stall_shutdown) {
    return endings_.abort(
        {Code::stalled, is_reported ? fmt::format("{} The report of {} s ago shows where it was.", stall.text,
                                                  seconds_to_text(now - last_report->full_at))
                                    : stall.text + stall.stacks});
  }
  const std::string text = is_reported ? fmt::format("Still stalled, {}, as reported {} s ago.", stall.head,
                                                     seconds_to_text(now - last_report->full_at))
                                       : stall.text + stall.stacks;
  log_.note(inquiry.key(), stall.story, !is_reported, now);
  outbox_.add(WarnAction{
      text, is_reported ? "" : fmt::format("Stalled {}; dabkerun prints the details.", stall.head)});
  dumps_.ask_after_warning(text, now);
}

}  // namespace dabke::negotiation
