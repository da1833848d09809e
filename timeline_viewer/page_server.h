// Serves the page with its traces to a browser of this machine.
//
// The server listens only on 127.0.0.1, and only answers requests below a path that cannot be guessed. So
// another user of the machine cannot read the trace. Requests must also name this host. So a page of another
// site cannot read the trace, even if its owner lets the site's name resolve to this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::viewer {

class PageServer {
 public:
  /// `traces` are the files, which are sent unchanged.
  static Result<PageServer> open(std::string page, std::vector<std::string> traces, std::string reports);

  const std::string& address() const { return address_; }

  /// Answers requests until the descriptor `stop` is readable.
  Status serve(int stop);

 private:
  struct Connection {
    Fd fd;
    TimePoint until;
    std::string request, answer;
    Fd file;  // sent after the answer
    off_t left = 0;
  };

  PageServer() = default;
  void accept();
  /// True if the connection goes on.
  bool read(Connection& connection);
  bool write(Connection& connection);
  void answer(Connection& connection);
  void answer_file(Connection& connection, const std::string& path);
  /// Returns the trace for a target such as "trace/3"; null if there is none.
  const std::string* trace_of(std::string_view target) const;

  Fd listener_;
  std::string host_, path_, address_;
  std::string page_, reports_;
  std::vector<std::string> traces_;
  std::list<Connection> connections_;
};

}  // namespace dabke::viewer
