// The rendezvous store of a job, served over HTTP by its launcher (runtime/store/store_protocol.h).
//
// A server of its own rather than a library's: in rank 0 of a job that MPI has started it lives in an
// application, whose signal dispositions are not ours to change, whose programs must not inherit its sockets
// (not even those that a library has just accepted), and whose forked children must not hold them. And one
// thread serves all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::store {

class RendezvousServer {
 public:
  /// Takes a free port of each address ("127.0.0.1" for a job on one host); those that cannot be listened on are left
  /// out, but not all. Clients can connect from now on and are answered after start(). No thread is made yet, so that the
  /// launcher can still fork.
  static Result<std::unique_ptr<RendezvousServer>> listen(const std::vector<std::string>& addresses,
                                                          const JobId& job, const JobKey& key);
  /// Called with every key and value that is set, on the server's thread, from start() on. Before start().
  void on_set(std::function<void(const std::string& key, const std::string& value)> watcher);
  /// A value that is there from the start. Before start().
  void preset(const std::string& key, std::string value);
  /// Sets a value, as a client would. After start(), from any thread.
  void set(const std::string& key, std::string value);
  /// One thread serves any number of ranks that wait at once.
  Status start();
  /// Ends every wait and joins the thread.
  ~RendezvousServer();

  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// Called in the child of a fork only, where the thread does not exist: closes what came along. The server
  /// can then only be leaked. Async-signal-safe.
  void close_in_child();

  /// The addresses, as in DABKE_RENDEZVOUS: http://host:port, and more of those with commas between.
  const std::string& url() const { return url_; }

 private:
  class Loop;
  RendezvousServer(std::unique_ptr<Loop> loop, std::string url);

  std::unique_ptr<Loop> loop_;
  std::string url_;
};

}  // namespace dabke::store
