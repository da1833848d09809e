// Shows a job to whoever looks at it (DABKE_TOP): on rank 0, a thread that asks all ranks for their figures
// once a second while somebody looks, and sleeps while nobody does.
//
// Who looks is dabkerun, which then always does, or anybody who has the key of a file of this user's and
// connects. After the handshake of ranks (runtime/links/handshake.h) figures are frames
// (runtime/links/frame.h) of JSON (job_figures.h), and whoever looks sends nothing.
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
    std::shared_ptr<store::Store> launcher;  // where dabkerun reads; null: it does not
    ForkGuard& guard;
    Log log;
    std::function<void()> look;
    std::function<std::optional<JobFigures>(Duration limit)> figures;
  };
  ///   errors  the port cannot be had, or the file with the key not be written
  static Result<std::unique_ptr<LiveStatisticsServer>> open(Parts parts);
  ~LiveStatisticsServer();
  LiveStatisticsServer(const LiveStatisticsServer&) = delete;
  LiveStatisticsServer& operator=(const LiveStatisticsServer&) = delete;

 private:
  /// Somebody who looks, or says so.
  struct Viewer {
    GuardedFd socket;
    links::Handshake handshake;
    TimePoint proves_until;
    std::string waiting;  // what it has not taken yet
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
  std::string file_;  // with the key; empty: none
  GuardedFd listener_;
  GuardedFd end_;  // readable: the thread is to end
  std::vector<std::unique_ptr<Viewer>> viewers_;
  TimePoint admits_at_{};             // not before
  TimePoint look_at_{};               // the next time
  std::optional<TimePoint> take_at_;  // what was asked for
  bool ends_ = false;
  std::jthread thread_;
};

}  // namespace dabke::diagnosis
