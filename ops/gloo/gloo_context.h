// The connections of one algorithm in one process set.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gloo/context.h>

#include "ops/gloo/gloo_device.h"
#include "ops/gloo/pair_sockets.h"
#include "runtime/backend/backend.h"

namespace dabke::ops {

class GlooContext {
 public:
  /// `peer_timeout`: how long a peer's host may be silent; zero: for ever.
  GlooContext(GlooDevice& device, const ProcessSetInfo& set, ForkGuard& fork_guard, Duration peer_timeout);
  ~GlooContext();

  /// Collective over the set. Ranks find one another by `store`, where `key` must be new and the same for all
  /// of them.
  ///   errors  timeout, naming the key; transport; what `interrupted` returns, which is asked while waiting
  ///   throws  what Gloo does
  Status connect(store::Store& store, const std::string& key, TimePoint deadline,
                 const std::function<Status()>& interrupted);

  const std::shared_ptr<gloo::Context>& gloo() const { return context_; }
  /// Ends the run or the connecting that blocks inside Gloo. From any thread; to be repeated until it has
  /// ended.
  void interrupt();
  /// The place in the set of the peer with which connect() is, or has failed to be, connected; -1: none.
  int connecting_to() const { return connecting_to_; }
  /// The peer's place in the set; see PairSockets.
  std::optional<PairSockets::Lost> lost_peer() { return sockets_.lost_peer(); }
  void begin_run() { sockets_.begin_run(); }
  std::vector<int> broken_peers(const std::string& said) { return sockets_.broken(said); }
  /// A tag for the next run: a message of one run is never taken for another's.
  std::uint32_t next_tag() { return tag_++; }

 private:
  class Mesh;

  PairSockets sockets_;
  std::shared_ptr<Mesh> mesh_;
  std::shared_ptr<gloo::Context> context_;  // mesh_
  std::uint32_t tag_ = 0;
  int connecting_to_ = -1;
};

}  // namespace dabke::ops
