// The rendezvous store of a job, served over HTTP by its launcher (runtime/store/store_protocol.h).
//
// A server of our own instead of a library's, because in a job that MPI has started it runs in an
// application, in rank 0. The application's signal dispositions must stay as they are. Its programs must not
// inherit the server's sockets, not even one that has just been accepted, and its forked children must not
// hold them. One thread serves all.
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
  /// Takes a free port of each address ("127.0.0.1" for a job on one host). Addresses on which it cannot
  /// listen are left out; it fails if that is all of them. Clients can connect from now on, and are answered
  /// after start(). No thread is made yet, so that the launcher can still fork.
  static Result<std::unique_ptr<RendezvousServer>> listen(const std::vector<std::string>& addresses,
                                                          const JobId& job, const JobKey& key);
  /// Sets a function that the server's thread calls with every key and value that a client sets. Before
  /// start().
  void on_set(std::function<void(const std::string& key, const std::string& value)> watcher);
  /// Sets a value that is there from the beginning. Before start().
  void preset(const std::string& key, std::string value);
  /// Sets a value, as a client would. After start(), from any thread.
  void set(const std::string& key, std::string value);
  /// One thread serves any number of ranks that wait at once.
  Status start();
  /// Ends every wait and joins the thread.
  ~RendezvousServer();

  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// Closes the inherited descriptors. Called only in the child of a fork, where the thread does not exist.
  /// After that the server can only be leaked. Async-signal-safe.
  void close_in_child();

  /// The addresses in the form of DABKE_RENDEZVOUS: http://host:port, then more of host:port, with commas
  /// between.
  const std::string& url() const { return url_; }

 private:
  class Loop;
  RendezvousServer(std::unique_ptr<Loop> loop, std::string url);

  std::unique_ptr<Loop> loop_;
  std::string url_;
};

}  // namespace dabke::store
