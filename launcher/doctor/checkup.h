// The examination of hosts for `dabkerun doctor`, through their agents, all at once. Hosts that do not answer
// are reported, too.
//
// 1. Every agent is started as for a job. An agent that is lost gets the same error as in a job.
// 2. `examine`: the properties of each host, and the listening addresses of its agent. Several round trips
//    measure how far its clock is ahead.
// 3. `reach`: each host tries the addresses of all others, as ranks of a job do.
// 4. `measure`: in as many rounds as there are other hosts, each host exchanges bytes with one other host,
//    and answers one.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent_protocol/protocol.h"
#include "launcher/hosts/hosts.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/agent_starter.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

struct ClockSkew {
  std::int64_t ahead_ns = 0;  // of this host's time of day
  std::int64_t bound_ns = 0;  // the largest error of it: half the shortest round trip
};

struct HostReport {
  Host host;
  bool is_here = false;
  std::string machine;
  std::vector<std::string> trouble;  // lines, the cause first; empty: it has answered everything
  std::optional<ExaminedMessage> facts;
  std::optional<ClockSkew> clock;
};

/// A route from one host to another, by their indices.
struct RouteReport {
  std::size_t from = 0, to = 0;
  std::string address;  // at which `to` was reached
  std::int64_t round_trip_ns = 0, bytes_per_s = 0;
  std::string trouble;  // why it was not reached, or not measured
};

struct CheckupReport {
  std::vector<HostReport> hosts;
  std::vector<RouteReport> routes;  // between hosts that have been examined
  double exchange_s = 0;            // the sending time on each route; 0: nothing was sent
};

class Checkup {
 public:
  struct Settings {
    double start_timeout_s = 0;
    double peer_timeout_s = 0;
    std::string job_id, job_key;  // in hexadecimal digits
    bool key_has_come = false;    // to other hosts, by another way
    std::string network_interfaces;
    std::function<void(std::string_view)> progress;  // takes a line
  };
  Checkup(AgentStarter starter, Settings settings);
  Checkup(const Checkup&) = delete;
  Checkup& operator=(const Checkup&) = delete;

  /// Adds a host. The caller starts the agent of this host; run() starts the others.
  AgentLink& add_host(const Host& host, bool is_here);
  CheckupReport run();

 private:
  struct Patient {
    int clock_answers = 0;
    bool is_awaited = false;  // an answer is expected
    std::int64_t shortest_trip_ns = INT64_MAX;
    RouteReport* measured_route = nullptr;
  };

  void bring_agents();
  void examine();
  void reach();
  void measure();
  /// Waits until all expected answers have come, or the time is over.
  void await_answers(Duration wait, std::string_view what);
  void turn(TimePoint limit);
  void take_frame(std::size_t at, const FrameChannel::Frame& frame);
  void take_clock(std::size_t at, const ClockMessage& clock);
  void ask_clock(std::size_t at);
  void check_agents();
  void lose(std::size_t at, const std::string& why);
  void give_up(std::size_t at, std::vector<std::string> lines);
  bool is_well(std::size_t at) const { return report_.hosts[at].trouble.empty(); }
  void report_progress(const std::string& line) const { settings_.progress(line); }

  AgentStarter starter_;  // outlives the links
  const Settings settings_;
  CheckupReport report_;
  AgentStarter::Links links_;
  std::vector<Patient> patients_;
};

}  // namespace dabke::launcher
