// Serves the page with its traces to a browser of this machine.
//
// It listens on 127.0.0.1 alone, and answers what comes under a path that nobody can guess, for this host by name: neither a
// page of another site, by whatever name its owner lets the browser find us, nor another user of the machine reads the trace.
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
  /// `traces`: the files; they are sent as they are.
  static Result<PageServer> open(std::string page, std::vector<std::string> traces, std::string reports);

  const std::string& address() const { return address_; }

  /// Answers until `stop` (a descriptor) can be read.
  Status serve(int stop);

 private:
  struct Connection {
    Fd fd;
    TimePoint until;
    std::string request, answer;
    Fd file;  // what follows the answer
    off_t left = 0;
  };

  PageServer() = default;
  void accept();
  /// Whether it goes on.
  bool read(Connection& connection);
  bool write(Connection& connection);
  void answer(Connection& connection);
  void answer_file(Connection& connection, const std::string& path);
  /// The trace that "trace/3" asks for; null: none.
  const std::string* trace_of(std::string_view target) const;

  Fd listener_;
  std::string host_, path_, address_;
  std::string page_, reports_;
  std::vector<std::string> traces_;
  std::list<Connection> connections_;
};

}  // namespace dabke::viewer
