#include "runtime/negotiation/tables/message_check.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/call/process_set_list.h"

namespace dabke::negotiation {
namespace {

/// Ten years; more would overflow in nanoseconds.
constexpr std::uint64_t kLongestAgeMs = 315'360'000'000;

Status impossible(std::string what) { return {Code::internal, std::move(what)}; }

class Check {
 public:
  Check(const Topology& topology, Rank peer) : topology_(topology), peer_(peer) {}

  Status operator()(const wire::ReadyMessage& message) const {
    if (message.late_rank != -1) DABKE_RETURN_IF_ERROR(rank(message.late_rank));
    for (const wire::Slot slot : message.wanted)
      DABKE_RETURN_IF_ERROR(cached(slot));  // slots of the other lists must represent known names
    for (const wire::Report& report : message.reports) DABKE_RETURN_IF_ERROR((*this)(report));
    for (const wire::JoinReport& join : message.joins) DABKE_RETURN_IF_ERROR((*this)(join));
    return {};
  }
  Status operator()(const wire::OrdersMessage& message) const {
    for (const wire::Order& order : message.orders) {
      if (wire::is_plain_cached(order)) continue;  // nearly all orders
      DABKE_RETURN_IF_ERROR((*this)(order));
    }
    return {};
  }
  Status operator()(const wire::GoodbyeMessage& message) const { return from_below(message.rank); }
  Status operator()(const wire::AnswerMessage& message) const {
    DABKE_RETURN_IF_ERROR(from_below(message.rank));
    DABKE_RETURN_IF_ERROR(age(message.idle_ms));
    return age(message.inside_ms);
  }
  Status operator()(const wire::NoticeMessage& message) const { return age(message.age_ms); }
  Status operator()(const wire::GroupNoticeMessage& message) const { return age(message.age_ms); }
  Status operator()(const wire::GroupAnswerMessage& message) const {
    DABKE_RETURN_IF_ERROR(from_below(message.rank));
    return age(message.age_ms);
  }
  Status operator()(const wire::SequenceAnswerMessage& message) const { return from_below(message.rank); }
  Status operator()(const wire::SequenceNoticeMessage&) const { return {}; }
  Status operator()(const wire::SequenceInquiryMessage&) const { return {}; }
  // Both go up, and then down.
  Status operator()(const wire::SenderQuestionMessage& message) const {
    return from_any(message.receiver, message.name);
  }
  Status operator()(const wire::SenderAnswerMessage& message) const {
    DABKE_RETURN_IF_ERROR(rank(message.sender));
    if (message.sender == message.receiver) return impossible("a rank cannot send to itself");
    return from_any(message.receiver, message.name);
  }
  Status operator()(const wire::FailMessage&) const { return {}; }
  Status operator()(const wire::InquiryMessage&) const { return {}; }
  Status operator()(const wire::DumpMessage&) const { return {}; }
  Status operator()(const wire::HeardMessage&) const { return {}; }
  Status operator()(const wire::GroupInquiryMessage&) const { return {}; }
  Status operator()(const wire::TimelineMessage&) const { return {}; }
  Status operator()(const wire::LookMessage&) const { return {}; }
  Status operator()(const wire::FiguresMessage& message) const {
    DABKE_RETURN_IF_ERROR(from_below(message.figures.rank));
    return age(message.figures.state_ms);
  }

 private:
  bool is_rank(Rank rank) const { return rank >= 0 && rank < topology_.size(); }
  Status rank(Rank rank) const {
    if (is_rank(rank)) return {};
    return impossible(fmt::format("there is no rank {} in a job of {}", rank, topology_.size()));
  }
  Status from_any(Rank receiver, const std::string& name) const {
    DABKE_RETURN_IF_ERROR(rank(receiver));
    if (is_name_from_any(name)) return {};
    return impossible(fmt::format("'{}' is not a message from any rank", name));
  }
  /// A neighbour sends only messages of ranks that report through it.
  Status from_below(Rank rank) const {
    DABKE_RETURN_IF_ERROR(this->rank(rank));
    if (rank == peer_ || topology_.is_below(rank, peer_)) return {};
    return impossible(fmt::format("rank {} does not report through it", rank));
  }
  static Status cached(wire::Slot slot) {
    if (wire::index_of(slot) < wire::kMostCacheSlots) return {};
    return impossible(fmt::format("slot {:#x} is beyond every cache", slot));
  }
  static Status age(std::uint64_t ms) {
    if (ms <= kLongestAgeMs) return {};
    return impossible(fmt::format("{} ms is more than ten years", ms));
  }
  Status contributors(std::int32_t count) const {
    if (count >= 0 && count <= topology_.size()) return {};
    return impossible(fmt::format("{} ranks contribute in a job of {}", count, topology_.size()));
  }

  Status operator()(const wire::JoinReport& join) const {
    for (const wire::NotServed& one : join.not_served) {
      DABKE_RETURN_IF_ERROR(rank(one.rank));
      if (one.type == DeviceType::host) return impossible(fmt::format("rank {} is without a host", one.rank));
    }
    const bool some_have_joined = join.last == -1 && join.unfinished.empty() && !join.not_served.empty();
    return some_have_joined ? Status::ok() : rank(join.last);
  }
  Status operator()(const wire::Report& report) const {
    DABKE_RETURN_IF_ERROR(contributors(report.contributors));
    for (const Rank each : report.joined) DABKE_RETURN_IF_ERROR(rank(each));
    for (const wire::RequestVariant& variant : report.variants) {
      if (variant.request->kind == CollectiveKind::join)
        return impossible("a join is reported as a tensor is");
      DABKE_RETURN_IF_ERROR((*this)(*variant.request));
      for (const Rank each : variant.ranks) DABKE_RETURN_IF_ERROR(rank(each));
    }
    return {};
  }
  Status operator()(const wire::Order& order) const {
    if (order.kind == wire::Order::Kind::left) return rank(order.rank);
    DABKE_RETURN_IF_ERROR(contributors(order.contributors));
    if (order.kind != wire::Order::Kind::run || !order.request) return {};  // an error has only a key
    DABKE_RETURN_IF_ERROR((*this)(*order.request));
    if (order.slot != wire::kNoSlot) DABKE_RETURN_IF_ERROR(cached(order.slot));
    if (order.request->kind == CollectiveKind::join) return rank(order.rank);
    // Sets among members may exist already.
    const ProcessSetId least = order.request->kind == CollectiveKind::add_set_among_members ? kWorldSet
                               : removes_set(order.request->kind)                           ? -1
                                                                                            : kWorldSet + 1;
    if (!adds_set(order.request->kind) && !removes_set(order.request->kind)) return {};
    const bool ends_world = removes_set(order.request->kind) && order.new_set == kWorldSet;
    if (order.new_set >= least && order.new_set < std::numeric_limits<ProcessSetId>::max() && !ends_world)
      return {};
    return impossible(fmt::format("{} is not an id of a process set", order.new_set));
  }
  Status operator()(const Request& request) const {
    const auto has_no_rows = [](const TensorSpec& tensor) { return tensor.shape.rank() == 0; };
    if (adds_set(request.kind) || removes_set(request.kind)) return change_of_sets(request);
    DABKE_RETURN_IF_ERROR(pair(request));
    if (!request.refused.is_ok()) return {};  // it will not run, and may be incomplete
    if (has_root(request.kind)) DABKE_RETURN_IF_ERROR(rank(request.root));
    if (moves_data(request.kind) && request.tensors.empty())
      return impossible(name_of_call(request) + " has no tensor");
    if (divides_rows(request.kind) && std::ranges::any_of(request.tensors, has_no_rows))
      return impossible(name_of_call(request) + " of a scalar");
    return {};
  }
  /// A message, and nothing else, is in the set of a pair of ranks.
  Status pair(const Request& request) const {
    const bool is_message = request.kind == CollectiveKind::send_recv;
    if (is_message ? is_pair_in(request.process_set, topology_.size()) : !is_pair(request.process_set))
      return {};
    return impossible(fmt::format("{} is in process set {}", name_of_call(request), request.process_set));
  }
  Status change_of_sets(const Request& request) const {
    if (request.process_set != kWorldSet)
      return impossible(
          fmt::format("{} is a matter of process set {}", name_of(request.kind), request.process_set));
    const std::vector<Rank>& ranks = request.ranks;
    if (request.kind == CollectiveKind::remove_process_set) {
      if (ranks.size() == 1 && ranks.front() > kWorldSet) return {};
      return impossible("no process set that can be removed is named");
    }
    if (!ranks.empty() && is_rank(ranks.front()) && is_rank(ranks.back()) &&
        std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end())
      return {};
    return impossible(fmt::format("ranks {} are not a process set of a job of {}", ranks_to_string(ranks),
                                  topology_.size()));
  }

  const Topology& topology_;
  const Rank peer_;
};

}  // namespace

Status check_message(const wire::Message& message, const Topology& topology, Rank peer) {
  return std::visit(Check(topology, peer), message);
}

}  // namespace dabke::negotiation
