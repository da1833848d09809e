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
  /// `peer_timeout` limits how long a peer's host may be silent. Zero: no limit.
  GlooContext(GlooDevice& device, const ProcessSetInfo& set, ForkGuard& fork_guard, Duration peer_timeout);
  ~GlooContext();

  /// Connects the ranks of the set. Collective over the set. The ranks exchange addresses through `store`,
  /// where `key` must be new, and equal on all ranks.
  ///   errors  timeout, naming the key; transport; the error of `interrupted`, which is called while waiting
  ///   throws  Gloo's exceptions
  Status connect(store::Store& store, const std::string& key, TimePoint deadline,
                 const std::function<Status()>& interrupted);

  const std::shared_ptr<gloo::Context>& gloo() const { return context_; }
  /// Ends the run, or the connecting, that blocks inside Gloo. From any thread; repeat it until the call has
  /// ended.
  void interrupt();
  /// Returns the set rank of the peer with which connect() is busy or has failed; -1 if there is none.
  int connecting_to() const { return connecting_to_; }
  /// Returns the lost peer, with its set rank; see PairSockets.
  std::optional<PairSockets::Lost> lost_peer() { return sockets_.lost_peer(); }
  void begin_run() { sockets_.begin_run(); }
  std::vector<int> broken_peers(const std::string& said) { return sockets_.broken(said); }
  /// Returns a tag for the next run, so that a message of one run is never taken for a message of another.
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
