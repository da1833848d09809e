#include "runtime/negotiation/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/message_check.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {

Machine::Machine(Options options)
    : options_(std::move(options)),
      sets_(options_.topology->everybody()),
      collector_(options_.topology, options_.rank),
      seen_(static_cast<std::size_t>(collector_.reporters())),
      left_(static_cast<std::size_t>(options_.topology->size())),
      peer_gone_(left_.size()) {
  if (is_root())
    sequencer_ = std::make_unique<Sequencer>(options_.sequencer, options_.topology, tensors_, cache_);
  for (const std::vector<Rank>& ranks : options_.static_sets) {
    const ProcessSetId id = sets_.next_id();
    sets_.add(id, ranks);
    collector_.add_set(id, ranks);
    if (sequencer_) sequencer_->add_static_set(id, ranks);
  }
}

Status Machine::check(const Request& request) const {
  const auto because = [&request](const Status& cause) {
    return Status(cause.code(),
                  fmt::format("{} '{}': {}", name_of(request.kind), request.name, cause.message()));
  };
  if (over_) return because(cause_);
  if (leaving_) return because({Code::shut_down, "dabke_shutdown was called on this rank"});
  const auto* ranks = sets_.ranks_of(request.process_set);
  if (ranks == nullptr) {
    return {Code::unknown_process_set,
            fmt::format("'{}': process set {} does not exist (it may have been removed)", request.name,
                        request.process_set)};
  }
  if (!collector_.is_open(request.process_set)) {
    const auto gone =
        std::ranges::find_if(*ranks, [&](Rank r) { return left_[static_cast<std::size_t>(r)]; });
    return {Code::shut_down, fmt::format("'{}' cannot run: {} has shut down", request.name,
                                         gone == ranks->end() ? "a rank" : who(*gone))};
  }
  if (joins_.contains(request.process_set)) {
    return {Code::invalid_argument,
            fmt::format(
                "'{}': this rank has joined process set {}; nothing can be submitted there until the join "
                "completes",
                request.name, request.process_set)};
  }
  return {};
}

void Machine::submit(Token token, RequestRef request, TimePoint now) {
  const bool awaited = request->is_group && groups_.finish(request->process_set, request->name);
  if (Status status = check(*request); !status) return complete(token, std::move(status));
  last_submit_ = now;
  note_wait(request->kind, now);
  if (!moves_data(request->kind)) report_slots(learned_.release_all(), now);  // it waits for what came before
  if (request->kind == CollectiveKind::join) return join(token, *request, now);
  TensorEntry& entry = tensors_.get(request->process_set, NameKey(*request));
  // What has no tensor has no name of the caller's choice: the n-th barrier in flight matches the others'
  // n-th.
  if (!entry.waiting.empty() && options_.duplicates_are_errors && moves_data(request->kind)) {
    return complete(
        token, {Code::duplicate_name,
                fmt::format("{} '{}': a tensor of this name is still pending; wait for it or choose another "
                            "name (DABKE_DUPLICATE_NAMES=queue would queue it)",
                            name_of(request->kind), request->name)});
  }
  entry.waiting.push({token, std::move(request), now});
  if (entry.waiting.size() == 1) announce(entry, now);
  if (awaited) want(entry.process_set, entry.name, now);
}

void Machine::join(Token token, const Request& request, TimePoint now) {
  fail_incomplete_groups(
      request.process_set,
      {Code::invalid_argument,
       "this rank has called dabke_join, after which it submits nothing more; submit all members "
       "of a group before it"});
  joins_[request.process_set] = {token, now};
  announce_join(request.process_set, now);
}

/// Announces a join at once, with the names of which more is queued here than has been reported; and again
/// whenever one of them is no longer. To wait for them first would be a deadlock where another rank does the
/// same with another name, and each is waited for by what the other has queued.
void Machine::announce_join(ProcessSetId set, TimePoint now) {
  if (!joins_.contains(set)) return;
  report_slots(learned_.release_all(), now);
  JoinReport join{set, options_.rank, {}};
  tensors_.for_each([&](const TensorEntry& entry) {
    if (entry.process_set == set && entry.waiting.size() > 1) join.unfinished.push_back(entry.name);
  });
  note_join(0, join, now);
}

void Machine::want(ProcessSetId set, const std::string& name, TimePoint now) {
  if (over_ || !learned_.any()) return;
  if (is_group_key(name)) {
    if (IncompleteGroup* group = groups_.find(set, name.substr(0, name.find('\0')))) group->awaited = true;
  }
  TensorEntry* wanted = tensors_.find(set, name);
  if (wanted == nullptr || wanted->waiting.empty() || wanted->batch == 0) return;
  if (!wanted->held) return note_awaited(*wanted, now);
  note_wanted(wanted->slot, now);
  report_slots(learned_.release(wanted->batch), now);
}

void Machine::message_from(Rank peer, std::span<const std::byte> bytes, TimePoint now) {
  if (failed_) return;
  auto decoded = decode(bytes);
  if (!decoded)
    return abort({Code::internal, fmt::format("from {}: {}", who(peer), decoded.status().message())});
  Message message = decoded.take();
  if (const Status possible = check_message(message, *options_.topology, peer); !possible)
    return abort({Code::internal, fmt::format("from {}: {}", who(peer), possible.message())});
  if (const auto* failure = std::get_if<FailMessage>(&message)) {
    return fail({failure->code == Code::ok ? Code::aborted : failure->code, failure->text}, peer);
  }
  if (peer == parent()) {
    if (word_by_ != kNever) parent_is_heard();
    if (auto* orders = std::get_if<OrdersMessage>(&message)) {
      if (!children().empty()) {
        pass_down(*orders, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
      }
      apply(std::move(*orders), now);
    } else if (const auto* inquiry = std::get_if<InquiryMessage>(&message)) {
      answer(*inquiry, now);
    } else if (const auto* group = std::get_if<GroupInquiryMessage>(&message)) {
      answer_group(*group, now);
    } else if (const auto* asked = std::get_if<DumpMessage>(&message)) {
      dump(*asked);
    }
    return;
  }
  if (over_) return;
  const auto* notice = std::get_if<NoticeMessage>(&message);
  if (notice != nullptr) send(peer, HeardMessage{});
  if (const auto* ready = std::get_if<ReadyMessage>(&message)) {
    from_child(collector_.reporter_of(peer), *ready, now);
  } else if (notice != nullptr) {
    tell(*notice, now);
  } else if (!is_root()) {
    flush_up();  // a goodbye comes after what was reported before it
    send(parent(), message);
  } else if (const auto* goodbye = std::get_if<GoodbyeMessage>(&message)) {
    if (!goodbyes_.insert(goodbye->rank).second) return;
    sequencer_->goodbye(goodbye->rank, now);
  } else if (auto* answered = std::get_if<AnswerMessage>(&message)) {
    const auto inquiry = std::ranges::find(inquiries_, answered->id, &Inquiry::id);
    if (inquiry != inquiries_.end()) inquiry->answers.insert_or_assign(answered->rank, std::move(*answered));
    judge_inquiries(now);
  } else if (const auto* incomplete = std::get_if<GroupNoticeMessage>(&message)) {
    inquire_group(*incomplete, now);
  } else if (auto* part = std::get_if<GroupAnswerMessage>(&message)) {
    take_group_answer(std::move(*part));
    judge_group_inquiries(now);
  } else if (const auto* wanted = std::get_if<DumpMessage>(&message)) {
    ask_for_dumps(wanted->reason, wanted->asked ? Dumped::as_asked : Dumped::as_warned, now);
  }
}

void Machine::peer_lost(Rank peer, const Status& cause) {
  peer_gone_[static_cast<std::size_t>(peer)] = true;
  const bool expected = left_[static_cast<std::size_t>(peer)] || goodbyes_.contains(peer);
  if (failed_ || expected) return;
  fail({Code::peer_lost, cause.message()}, peer);  // who lost it has said how, and what that can mean
}

void Machine::set_data_plane_busy(bool busy) {
  if (sequencer_) sequencer_->set_data_plane_busy(busy);
}

void Machine::tick(TimePoint now) {
  if (over_) return;
  if (now >= learned_.next_deadline()) report_slots(learned_.overdue(now), now);
  if (now >= next_check_) look_for_stalls(now);
  if (now >= next_wait_check_) look_for_long_waits(now);
  if (now >= word_by_) parent_is_silent(now);
  if (over_) return;
  if (now >= stack_deadline_) give_stack("(its stack could not be had in time)", now);
  judge_inquiries(now);
  judge_group_inquiries(now);
}

TimePoint Machine::next_tick() const {
  if (over_) return kNever;
  TimePoint next =
      std::min({next_check_, next_wait_check_, word_by_, learned_.next_deadline(), stack_deadline_});
  for (const Inquiry& inquiry : inquiries_) next = std::min(next, inquiry.deadline);
  for (const GroupInquiry& inquiry : group_inquiries_) next = std::min(next, inquiry.deadline);
  return sequencer_ ? std::min(next, sequencer_->next_tick()) : next;
}

void Machine::leave(TimePoint now) {
  if (leaving_) return;
  leaving_ = true;
  if (over_) return;
  report_slots(learned_.release_all(), now);
  fail_incomplete_groups(std::nullopt, {Code::shut_down, "dabke_shutdown was called on this rank"});
  if (is_root()) {
    if (goodbyes_.insert(options_.rank).second) sequencer_->goodbye(options_.rank, now);
    return;
  }
  flush_up();
  send(parent(), GoodbyeMessage{options_.rank});
}

std::vector<Action> Machine::take_actions(TimePoint now) {
  flush_up();
  // An order may let a queued request of the same name become ready at once, so there may be more after the
  // first.
  while (sequencer_ && !over_) {
    const std::size_t before = actions_.size();
    broadcast_orders(now);
    if (actions_.size() == before) break;
  }
  // Only now, when all that was submitted before is known.
  for (DumpAction& dump : std::exchange(dumps_, {})) {
    dump.snapshot = snapshot();
    actions_.emplace_back(std::move(dump));
  }
  return std::exchange(actions_, {});
}

// ---- ends

void Machine::abort(const Status& cause) {
  if (!over_) fail(cause, -1);
}

/// Everybody hears of it through the tree. `except`: who said it.
void Machine::fail(const Status& cause, Rank except) {
  if (failed_) return;
  for (const Rank peer : options_.topology->neighbours(options_.rank)) {
    if (peer != except) send(peer, FailMessage{cause.code(), cause.message()});
  }
  if (over_) {
    fail_last_runs(cause);
  } else {
    fail_everything(cause, cause);
  }
}

void Machine::fail_last_runs(const Status& cause) {
  failed_ = true;
  actions_.emplace_back(OverAction{cause});
}

void Machine::fail_set(ProcessSetId set, const Status& cause) {
  std::vector<TensorEntry*> failed;
  tensors_.for_each([&](TensorEntry& entry) {
    if (entry.process_set == set && !entry.waiting.empty()) failed.push_back(&entry);
  });
  for (TensorEntry* entry : failed) {
    while (!entry->waiting.empty()) {
      complete(entry->waiting.pop({}).token,
               {cause.code(), fmt::format("{} cannot run: {}", shown(entry->name), cause.message())});
    }
    entry->held = false;
  }
  fail_incomplete_groups(set, cause);
  if (const auto join = joins_.find(set); join != joins_.end()) {
    complete(join->second.token, {cause.code(), fmt::format("join cannot complete: {}", cause.message())});
    joins_.erase(join);
  }
}

void Machine::fail_everything(const Status& cause, const Status& over) {
  if (!over.is_ok()) actions_.emplace_back(DumpAction{cause.message(), 0, true, false, snapshot()});
  // First: who learns of it by an operation may end the process at once.
  actions_.emplace_back(OverAction{over});
  over_ = true;
  failed_ = !over.is_ok();
  cause_ = cause;
  tensors_.for_each([&](TensorEntry& entry) {
    while (!entry.waiting.empty()) {
      const Submitted waiting = entry.waiting.pop({});
      complete(waiting.token, {cause.code(), fmt::format("{} '{}': {}", name_of(waiting.request->kind),
                                                         waiting.request->name, cause.message())});
    }
  });
  for (const auto& [set, join] : joins_)
    complete(join.token, {cause.code(), fmt::format("join: {}", cause.message())});
  fail_incomplete_groups(std::nullopt, cause);
  tensors_.clear();
  cache_.clear();
  groups_.clear();
  joins_.clear();
  up_ = {};
  (void)learned_.learn({});
  inquiries_.clear();
  group_inquiries_.clear();
  without_stack_.clear();
  stack_deadline_ = kNever;
}

void Machine::complete(Token token, Status status, std::int64_t value) {
  if (token != Token::none) actions_.emplace_back(CompleteAction{token, std::move(status), value});
}

void Machine::send(Rank peer, const Message& message) {
  std::vector<std::byte> bytes;
  encode(message, bytes);
  send_bytes(peer, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

void Machine::send_bytes(Rank peer, std::shared_ptr<const std::vector<std::byte>> bytes) {
  if (peer_gone_[static_cast<std::size_t>(peer)]) return;
  actions_.emplace_back(SendAction{peer, std::move(bytes)});
}

std::string Machine::difference_in_tables(const Machine& root) const {
  std::string what;
  const auto note = [&what](std::string text) {
    if (what.empty()) what = std::move(text);
  };
  tensors_.for_each([&](const TensorEntry& entry) {
    if (!entry.collection.empty()) note(fmt::format("{} is incomplete here", shown(entry.name)));
    if (!entry.waiting.empty()) {
      note(fmt::format("{} waits here{}, slot {:#x}, batch {}", shown(entry.name),
                       entry.held ? ", kept back" : "", entry.slot, entry.batch));
    }
    if (entry.slot == kNoSlot) return;
    const TensorEntry* theirs = root.cache_.find(entry.slot);
    if (theirs == nullptr || theirs->name != entry.name || theirs->process_set != entry.process_set ||
        !difference(*theirs->agreed, *entry.agreed).empty()) {
      note(fmt::format("slot {} is {} here and {} there", entry.slot, shown(entry.name),
                       theirs == nullptr ? "nothing" : shown(theirs->name)));
    }
  });
  root.tensors_.for_each([&](const TensorEntry& entry) {
    if (entry.slot == kNoSlot || !sets_.contains(entry.process_set, options_.rank)) return;
    if (cache_.find(entry.slot) == nullptr)
      note(fmt::format("slot {} ({}) is not known here", entry.slot, shown(entry.name)));
  });
  if (sets_.ids() != root.sets_.ids()) note("the process sets");
  return what;
}

}  // namespace dabke
