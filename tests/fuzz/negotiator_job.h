// The job in which the Negotiator is fuzzed: five ranks on two hosts, a tree
// of three levels, and their requests.
#pragma once

#include <memory>
#include <vector>

#include "runtime/negotiation/negotiator.h"

namespace dabke::test {

/// The next event, which one byte of the input decides. The comments name the bytes that follow.
enum class Event : std::uint8_t {
  message,  // the index of the neighbour, and a piece
  submit,   // an index in requests()
  tick,     // the time that passes, in quarters of a second
  want,     // an index in requests()
  member,   // one member of a group of three
  busy,
  stack,
  long_run,
  leave,
  dumps,
  peer_lost,
  timeline,  // whether it starts, and the number of the request
  change,    // the number of announced changes
  count,
};

inline constexpr Rank kRanks[] = {0, 3, 4};  // the root, an inner rank, a leaf

inline std::shared_ptr<const negotiation::Topology> topology() {
  static const auto made =
      std::make_shared<const negotiation::Topology>(5, std::vector<std::string>{"a", "a", "a", "b", "b"}, 1);
  return made;
}

/// The options that the bits of the input's second byte set.
inline negotiation::Negotiator::Options options_of(Rank rank, unsigned bits) {
  negotiation::Negotiator::Options options;
  options.rank = rank;
  options.topology = topology();
  options.duplicates_are_errors = (bits & 1) != 0;
  if ((bits & 2) != 0) options.stall_check = std::chrono::seconds(2);
  if ((bits & 4) != 0) options.stall_shutdown = std::chrono::seconds(6);
  options.gives_stacks = (bits & 8) != 0;
  if ((bits & 16) != 0) options.static_sets = {{0, 3, 4}};
  if ((bits & 128) != 0) options.serves = {DeviceType::cuda};
  options.sequencer.cache_capacity = (bits & 32) != 0 ? 2 : 1024;
  options.sequencer.learned_batch_bytes = (bits & 64) != 0 ? 1 << 20 : 0;
  return options;
}

inline RequestRef request_of(CollectiveKind kind, std::string name, std::vector<std::int64_t> dims,
                             ProcessSetId set = kWorldSet) {
  auto request = std::make_shared<Request>();
  request->kind = kind;
  request->name = name;
  request->process_set = set;
  if (moves_data(kind)) request->tensors.push_back({std::move(name), DType::f32, Shape(dims)});
  return request;
}

inline const std::vector<RequestRef>& requests() {
  static const std::vector<RequestRef> all = [] {
    using enum CollectiveKind;
    std::vector<RequestRef> made = {
        request_of(allreduce, "x", {4}),    request_of(allreduce, "y", {2, 3}),
        request_of(allreduce, "x", {5}),    request_of(allgather, "z", {2, 2}),
        request_of(alltoall, "w", {5}),     request_of(broadcast, "b", {1}),
        request_of(barrier, "barrier", {}), request_of(join, "join", {}),
        request_of(allreduce, "x", {4}, 1), request_of(barrier, "barrier", {}, 1),
        request_of(join, "join", {}, 1),
    };
    auto add = std::make_shared<Request>(*request_of(add_process_set, "add", {}));
    add->ranks = {0, 3, 4};
    made.push_back(add);
    auto remove = std::make_shared<Request>(*request_of(remove_process_set, "remove", {}));
    remove->ranks = {1};
    made.push_back(remove);
    auto group = std::make_shared<Request>(*request_of(allreduce, "g", {3}));
    group->tensors.push_back({"h", DType::f32, Shape({7})});
    group->is_group = true;
    made.push_back(group);
    auto refused = std::make_shared<Request>(*request_of(allreduce, "r", {3}));
    refused->refused = Status(Code::out_of_memory, "no memory");
    made.push_back(refused);
    auto on_cuda = std::make_shared<Request>(*request_of(allreduce, "c", {3}));
    on_cuda->device_type = DeviceType::cuda;
    made.push_back(on_cuda);
    for (const CollectiveKind kind : {add_set_among_members, remove_set_among_members}) {
      auto change = std::make_shared<Request>(*request_of(kind, "members", {}));
      change->ranks = {0, 3, 4};
      made.push_back(change);
    }
    return made;
  }();
  return all;
}

}  // namespace dabke::test
