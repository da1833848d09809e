// The rendezvous store of a job, served over HTTP by its launcher (runtime/base/store_protocol.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

class RendezvousServer {
 public:
  /// Takes a free port of `address` ("127.0.0.1" for a job on one host). Clients can connect from now on and
  /// are answered after start(). No thread is made yet, so that the launcher can still fork.
  static Result<std::unique_ptr<RendezvousServer>> listen(const std::string& address, const JobId& job,
                                                          const JobKey& key);
  /// Called with every key and value that is set, on any thread, from start() on. Before start().
  void on_set(std::function<void(const std::string& key, const std::string& value)> watcher);
  /// Every request has a thread while it lasts, so any number of ranks may wait at once.
  void start();
  /// Ends every wait and joins every thread.
  ~RendezvousServer();

  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// As in DABKE_RENDEZVOUS.
  const std::string& url() const { return url_; }

 private:
  struct Parts;
  RendezvousServer(std::unique_ptr<Parts> parts, std::string url);

  std::unique_ptr<Parts> parts_;
  std::string url_;
};

}  // namespace dabke
