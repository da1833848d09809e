#include "runtime/negotiation/state/endings.h"

#include <vector>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/negotiation/state/departure.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {

void Endings::complete(Token token, Status status, std::int64_t value, std::uint64_t changes) {
  if (token != Token::none) outbox_.add(CompleteAction{token, std::move(status), value, changes});
}

void Endings::abort(const Status& cause) {
  if (!state_.over) fail(cause, -1);
}

void Endings::fail(const Status& cause, Rank except) {
  if (state_.failed) return;
  for (const Rank peer : state_.options.topology->neighbours(state_.options.rank)) {
    if (peer != except) outbox_.send(peer, wire::FailMessage{cause.code(), cause.message()});
  }
  if (!state_.over) return end(cause, cause);
  state_.failed = true;
  outbox_.add(OverAction{cause});
}

void Endings::fail_waiting(TensorEntry& entry, const Why& why) {
  while (!entry.waiting.empty()) {
    const Submitted waiting = entry.waiting.pop({});
    complete(waiting.token, why(name_of_call(*waiting.request)));
  }
  entry.held = false;
}

void Endings::fail_messages_within(ProcessSetId set, const Why& why) {
  std::vector<TensorEntry*> failed;
  state_.tensors.for_each([&](TensorEntry& entry) {
    if (is_pair(entry.process_set) && set_of_message(entry.name) == set) failed.push_back(&entry);
  });
  for (TensorEntry* entry : failed) {
    fail_waiting(*entry, why);
    entry->collection = {};
    state_.tensors.tidy(*entry);
  }
}

void Endings::fail_set(ProcessSetId set, const Why& why) {
  std::vector<TensorEntry*> failed;
  state_.tensors.for_each([&](TensorEntry& entry) {
    if (entry.process_set == set && !entry.waiting.empty()) failed.push_back(&entry);
  });
  for (TensorEntry* entry : failed) fail_waiting(*entry, why);
  fail_incomplete_groups(set, why("the other members of its group"));
  if (const auto join = state_.joins.find(set); join != state_.joins.end()) {
    complete(join->second.token, why("join"));
    state_.joins.erase(join);
  }
}

void Endings::fail_incomplete_groups(std::optional<ProcessSetId> set, const Status& cause) {
  std::vector<IncompleteGroups::Key> failed;
  state_.groups.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    if (set && key.first != *set) return;
    failed.push_back(key);
    outbox_.add(FailGroupAction{key.first,
                                key.second,
                                {cause.code(), fmt::format("{} had been submitted: {}",
                                                           group.describe(key.second), cause.message())}});
  });
  for (const IncompleteGroups::Key& key : failed) state_.groups.forget(key.first, key.second);
}

void Endings::fail_incomplete_group(ProcessSetId set, const std::string& key, const Status& why) {
  const std::string group = key.substr(0, key.find('\0'));
  if (!state_.groups.fail(set, group, why)) return;
  outbox_.add(FailGroupAction{set, group, why});
}

void Endings::end(const Status& cause, const Status& over, TimePoint now) {
  const auto why = [&](const std::string& what) {
    return state_.ended_by.who.empty() ? Status(cause.code(), fmt::format("{}: {}", what, cause.message()))
                                       : departed(state_, state_.ended_by, what, now);
  };
  if (!over.is_ok()) outbox_.add(DumpAction{cause.message(), 0, true, false, snapshot_of(state_)});
  // First, because a program that learns of the end by an operation may end the process at once.
  outbox_.add(OverAction{over});
  state_.over = true;
  state_.deadlines.clear();
  state_.failed = !over.is_ok();
  state_.cause = cause;
  state_.tensors.for_each([&](TensorEntry& entry) {
    while (!entry.waiting.empty()) {
      const Submitted waiting = entry.waiting.pop({});
      complete(waiting.token, why(name_of_call(*waiting.request)));
    }
  });
  for (const auto& [set, join] : state_.joins) complete(join.token, why("join"));
  fail_incomplete_groups(std::nullopt, cause);
  state_.tensors.clear();
  state_.cache.clear();
  state_.groups.clear();
  state_.joins.clear();
  (void)state_.learned.learn({});
}

}  // namespace dabke::negotiation
