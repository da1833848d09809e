// Shows a running job to viewers (DABKE_TOP). On rank 0, a thread requests the figures of all ranks once a
// second while there is a viewer, and sleeps otherwise.
//
// A viewer is dabkerun, which views all the time, or any program that connects and has the key from a file of
// this user. After the handshake of ranks (runtime/links/handshake.h), figures are sent as frames
// (runtime/links/frame.h) of JSON (job_figures.h). A viewer sends nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/diagnosis/live/job_figures.h"
#include "runtime/diagnosis/live/live_statistics_ticket.h"
#include "runtime/links/handshake.h"
#include "runtime/links/network.h"
#include "runtime/store/store.h"

namespace dabke::diagnosis {

class LiveStatisticsServer {
 public:
  struct Parts {
    const World& world;
    std::string where;                       // DABKE_TOP: "launcher", or a port
    std::shared_ptr<store::Store> launcher;  // where dabkerun reads the figures; null without dabkerun
    ForkGuard& guard;
    Log log;
    std::function<void()> look;
    std::function<std::optional<JobFigures>(Duration limit)> figures;
  };
  ///   errors  the port is not available, or the file with the key cannot be written
  static Result<std::unique_ptr<LiveStatisticsServer>> open(Parts parts);
  ~LiveStatisticsServer();
  LiveStatisticsServer(const LiveStatisticsServer&) = delete;
  LiveStatisticsServer& operator=(const LiveStatisticsServer&) = delete;

 private:
  /// A connection of a viewer, or of a program that has not yet proved that it may view.
  struct Viewer {
    GuardedFd socket;
    links::Handshake handshake;
    TimePoint proves_until;
    std::string waiting;  // bytes that the viewer has not received yet
    bool is_gone = false;
  };

  explicit LiveStatisticsServer(Parts parts) : parts_(std::move(parts)) {}
  Status start();
  Status listen();
  void loop() noexcept;
  bool is_seen() const;
  TimePoint next_deadline() const;
  void wait();
  void keep_time();
  void admit();
  void serve(Viewer& viewer);
  void show(const JobFigures& job);
  static void send_some(Viewer& viewer);

  const Parts parts_;
  LiveStatisticsTicket ticket_;
  std::string file_;  // the file with the key; empty if there is none
  GuardedFd listener_;
  GuardedFd end_;  // readable when the thread must end
  std::vector<std::unique_ptr<Viewer>> viewers_;
  TimePoint admits_at_{};             // accepts no connection before this time
  TimePoint look_at_{};               // the time of the next request to the ranks
  std::optional<TimePoint> take_at_;  // the time to read the answers to a request; nothing without a request
  bool ends_ = false;
  std::jthread thread_;
};

}  // namespace dabke::diagnosis
