#include "runtime/core/point_to_point.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/call/process_set_list.h"
#include "runtime/call/request_check.h"

namespace dabke::core {
namespace {

Status check_ends(const Request& request, const Message& message, const ProcessSetTable& sets, Rank own) {
  const auto set = sets.find(request.process_set);
  const std::string call = name_of_call(message.is_sent ? "send" : "recv", request.name);
  if (!set)
    return {Code::unknown_process_set,
            fmt::format("{}: {}", call, sets.missing(request.process_set).message())};
  const bool is_from_any = message.peer == kAnyRank && !message.is_sent;
  const auto has = [&](Rank rank) { return std::ranges::find(set->ranks, rank) != set->ranks.end(); };
  if (is_from_any && set->ranks.size() == 1)
    return {Code::invalid_argument,
            fmt::format("{}: process set {} has only this rank, so nothing can be received", call, set->id)};
  if (!has(own) || !(is_from_any || has(message.peer)))
    return {Code::invalid_argument,
            fmt::format("{}: {} is not in process set {}, which has ranks {}", call,
                        has(own) ? fmt::format("peer rank {}", message.peer) : "this rank", set->id,
                        ranks_to_string(set->ranks))};
  if (message.peer == own)
    return {Code::invalid_argument,
            fmt::format("{}: the peer is rank {}, this rank; copy the tensor instead", call, own)};
  if (std::max(own, is_from_any ? set->ranks.back() : message.peer) >= kMostRanksOfPairs)
    return {Code::unsupported,
            fmt::format("{}: ranks {} and more cannot send or receive", call, kMostRanksOfPairs)};
  return {};
}

}  // namespace

Status become_message(Request& request, const Message& message, const ProcessSetTable& sets, Rank own) {
  DABKE_RETURN_IF_ERROR(check_ends(request, message, sets, own));
  const Rank from = message.is_sent ? own : message.peer, to = message.is_sent ? message.peer : own;
  request.name = message_name(request.name, from, to, message.tag, request.process_set);
  for (TensorSpec& tensor : request.tensors) tensor.name = request.name;
  request.root = from;
  if (from != kAnyRank) request.process_set = pair_of(own, message.peer);
  return {};
}

}  // namespace dabke::core
