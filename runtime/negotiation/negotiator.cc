#include "runtime/negotiation/negotiator.h"

#include <fmt/format.h>

#include "runtime/negotiation/state/departure.h"
#include "runtime/negotiation/tables/message_check.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {

Negotiator::Negotiator(Options options)
    : state_(std::move(options)),
      outbox_(state_.options.topology->size()),
      endings_(state_, outbox_),
      dumps_(state_, outbox_),
      timelines_(state_, outbox_),
      live_statistics_(state_, outbox_),
      stalls_(state_, outbox_, endings_, dumps_),
      groups_(state_, outbox_, endings_, dumps_),
      sequences_(state_, outbox_),
      senders_(state_, outbox_,
               [this](Token token, RequestRef request, TimePoint now) {
                 state_.meet(request->process_set);
                 TensorEntry& entry = state_.tensors.get(request->process_set, NameKey(*request));
                 enter(entry, token, std::move(request), now);
               }),
      reporter_(state_, outbox_, endings_, stalls_),
      follower_(state_, outbox_, endings_, reporter_, stalls_, groups_, senders_),
      orders_due_(state_.deadlines) {}

Status Negotiator::check(const Request& request, TimePoint now) const {
  const auto because = [&request](const Status& cause) {
    return Status(cause.code(), fmt::format("{}: {}", name_of_call(request), cause.message()));
  };
  if (!state_.ended_by.who.empty()) return departed(state_, state_.ended_by, name_of_call(request), now);
  if (state_.over) return because(state_.cause);
  if (leaving_) return because({Code::shut_down, "dabke_shutdown was called on this rank"});
  const auto* ranks = state_.sets.ranks_of(request.process_set);
  if (ranks == nullptr) {
    return {Code::unknown_process_set,
            fmt::format("'{}': process set {} does not exist (it may have been removed)", request.name,
                        request.process_set)};
  }
  if (!state_.collector.is_open(request.process_set))
    return departed(state_, departure_from(state_, *ranks), name_of_call(request), now);
  if (state_.joins.contains(request.process_set) && !is_among_members(request.kind)) {
    return {Code::invalid_argument,
            fmt::format(
                "'{}': this rank has joined process set {}; submit nothing there until the join completes",
                request.name, request.process_set)};
  }
  return {};
}

void Negotiator::submit(Token token, RequestRef request, TimePoint now) {
  state_.meet(request->process_set);
  const bool awaited = request->is_group && state_.groups.finish(request->process_set, request->name);
  if (Status status = check(*request, now); !status.is_ok())
    return endings_.complete(token, std::move(status));
  stalls_.note_submit(now);
  stalls_.note_wait(*request, now);
  if (!moves_data(request->kind))
    reporter_.report(state_.learned.release_all(), now);  // it waits for what came before
  if (request->kind == CollectiveKind::join) return join(token, *request, now);
  TensorEntry& entry = state_.tensors.get(request->process_set, NameKey(*request));
  // A request without a tensor has no name of the caller's choice: the n-th barrier in flight matches the
  // n-th of the other ranks. So does the n-th message of a name.
  const bool may_queue = !moves_data(request->kind) || request->kind == CollectiveKind::send_recv;
  if (!entry.waiting.empty() && state_.options.duplicates_are_errors && !may_queue) {
    return endings_.complete(
        token, {Code::duplicate_name,
                fmt::format("{}: a tensor of this name is still pending; wait for it or choose another "
                            "name (DABKE_DUPLICATE_NAMES=queue would queue it)",
                            name_of_call(*request))});
  }
  enter(entry, token, std::move(request), now);
  if (awaited) want(entry.process_set, entry.name, now);
}

/// The request begins to wait, in its turn under its name.
void Negotiator::enter(TensorEntry& entry, Token token, RequestRef request, TimePoint now) {
  const std::uint64_t number = sequences_.count(*request, now);
  const bool is_any = is_from_any(*request);
  entry.waiting.push({token, std::move(request), now, number});
  if (entry.waiting.size() > 1) return;
  if (is_any) return senders_.begin(entry);
  reporter_.announce(entry, now);
  senders_.note_wait(entry);
}

Status Negotiator::submit_member(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                                 TimePoint now) {
  DABKE_RETURN_IF_ERROR(check(*member, now));
  stalls_.note_submit(now);
  return groups_.add(member, group, group_size, now);
}

void Negotiator::join(Token token, const Request& request, TimePoint now) {
  endings_.fail_incomplete_groups(request.process_set,
                                  {Code::invalid_argument,
                                   "this rank has called dabke_join and can submit nothing more; submit all "
                                   "members of a group before it"});
  state_.joins[request.process_set] = {token, now};
  reporter_.announce_join(request.process_set, now);
}

void Negotiator::message_from(Rank peer, std::span<const std::byte> bytes, TimePoint now) {
  if (state_.failed) return;
  auto decoded = wire::decode(bytes);
  if (!decoded) {
    return abort({Code::internal, fmt::format("from {}: {}", state_.who(peer), decoded.status().message())});
  }
  wire::Message message = decoded.take();
  if (const Status possible = check_message(message, *state_.options.topology, peer); !possible.is_ok())
    return abort({Code::internal, fmt::format("from {}: {}", state_.who(peer), possible.message())});
  if (const auto* failure = std::get_if<wire::FailMessage>(&message)) {
    return endings_.fail({failure->code == Code::ok ? Code::aborted : failure->code, failure->text}, peer);
  }
  if (peer == state_.parent()) {
    hear_parent(message, bytes, now);
  } else if (!state_.over) {
    hear_child(peer, message, now);
  }
}

void Negotiator::hear_parent(wire::Message& message, std::span<const std::byte> bytes, TimePoint now) {
  stalls_.note_parent();
  if (auto* orders = std::get_if<wire::OrdersMessage>(&message)) {
    follower_.follow(std::move(*orders), bytes, now);
  } else if (const auto* inquiry = std::get_if<wire::InquiryMessage>(&message)) {
    stalls_.answer(*inquiry, now);
  } else if (const auto* group = std::get_if<wire::GroupInquiryMessage>(&message)) {
    groups_.answer(*group, now);
  } else if (const auto* sequence = std::get_if<wire::SequenceInquiryMessage>(&message)) {
    sequences_.answer(*sequence, now);
  } else if (const auto* question = std::get_if<wire::SenderQuestionMessage>(&message)) {
    senders_.take_question(*question);
  } else if (const auto* sender = std::get_if<wire::SenderAnswerMessage>(&message)) {
    senders_.take_answer(*sender, now);
  } else if (const auto* asked = std::get_if<wire::DumpMessage>(&message)) {
    dumps_.obey(*asked);
  } else if (std::holds_alternative<wire::LookMessage>(message)) {
    live_statistics_.ask();
  }
}

void Negotiator::hear_child(Rank child, wire::Message& message, TimePoint now) {
  if (const auto* ready = std::get_if<wire::ReadyMessage>(&message)) {
    reporter_.from_child(state_.collector.reporter_of(child), *ready, now);
  } else if (const auto* notice = std::get_if<wire::NoticeMessage>(&message)) {
    outbox_.send(child, wire::HeardMessage{});
    stalls_.notify(*notice, now);
  } else if (state_.is_root()) {
    hear_as_root(message, now);
  } else {
    reporter_.flush();  // a goodbye comes after what was reported before it
    outbox_.send(state_.parent(), message);
  }
}

void Negotiator::hear_as_root(wire::Message& message, TimePoint now) {
  if (const auto* goodbye = std::get_if<wire::GoodbyeMessage>(&message)) {
    if (goodbyes_.insert(goodbye->rank).second) state_.sequencer->goodbye(goodbye->rank, now);
  } else if (auto* answered = std::get_if<wire::AnswerMessage>(&message)) {
    stalls_.take_answer(std::move(*answered), now);
  } else if (const auto* incomplete = std::get_if<wire::GroupNoticeMessage>(&message)) {
    groups_.inquire(*incomplete, now);
  } else if (auto* part = std::get_if<wire::GroupAnswerMessage>(&message)) {
    groups_.take_answer(std::move(*part));
    groups_.judge(now);
  } else if (const auto* waiting = std::get_if<wire::SequenceNoticeMessage>(&message)) {
    sequences_.inquire(*waiting, now);
  } else if (auto* call = std::get_if<wire::SequenceAnswerMessage>(&message)) {
    sequences_.take_answer(std::move(*call), now);
  } else if (const auto* question = std::get_if<wire::SenderQuestionMessage>(&message)) {
    senders_.take_question(*question);
  } else if (const auto* sender = std::get_if<wire::SenderAnswerMessage>(&message)) {
    senders_.take_answer(*sender, now);
  } else if (const auto* wanted = std::get_if<wire::DumpMessage>(&message)) {
    ask_for_dumps(wanted->reason, wanted->asked ? Dumped::as_asked : Dumped::as_warned, now);
  } else if (auto* timeline = std::get_if<wire::TimelineMessage>(&message)) {
    change_timeline(std::move(timeline->change), timeline->from, now);
  } else if (auto* given = std::get_if<wire::FiguresMessage>(&message)) {
    live_statistics_.give(std::move(given->figures), now);
  }
}

void Negotiator::peer_lost(Rank peer, const Status& cause) {
  outbox_.note_gone(peer);
  if (!misses(peer)) return;
  endings_.fail({Code::peer_lost, cause.message()},
                peer);  // the cause describes how the peer was lost
}

void Negotiator::set_data_plane_busy(DeviceType type, bool busy) {
  if (state_.sequencer) state_.sequencer->set_data_plane_busy(type, busy);
}

void Negotiator::tick(TimePoint now) {
  if (!state_.over) state_.deadlines.run(now);
}

void Negotiator::leave(TimePoint now) {
  if (leaving_) return;
  leaving_ = true;
  if (state_.over) return;
  reporter_.report(state_.learned.release_all(), now);
  endings_.fail_incomplete_groups(std::nullopt, {Code::shut_down, "dabke_shutdown was called on this rank"});
  if (state_.is_root()) {
    if (goodbyes_.insert(state_.options.rank).second) state_.sequencer->goodbye(state_.options.rank, now);
    return;
  }
  reporter_.flush();
  outbox_.send(state_.parent(), wire::GoodbyeMessage{state_.options.rank});
}

std::vector<Action> Negotiator::take_actions(TimePoint now) {
  reporter_.flush();
  // An order may make a queued request of the same name ready at once, so more orders may follow the first.
  while (orders_here()) {
    wire::OrdersMessage message{state_.sequencer->take_orders(now)};
    if (message.orders.empty()) break;
    const std::size_t before = outbox_.size();
    follower_.follow(std::move(message), {}, now);
    if (outbox_.size() == before) break;
  }
  if (orders_here()) orders_due_.set(state_.sequencer->ready().next_tick());
  dumps_.add_actions();
  return outbox_.take();
}

}  // namespace dabke::negotiation
