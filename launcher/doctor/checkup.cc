#include "launcher/doctor/checkup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kClockAnswers = 8;
constexpr Duration kExamineLimit = 15s;
/// The time in which 64 hosts at a time must prove themselves. A refused or filtered address takes all of it.
constexpr Duration kReachLimit = 3s;
constexpr std::size_t kReachAtOnce = 64;
/// The approximate limit of all rounds of exchanges together.
constexpr Duration kAllExchanges = 20s;
constexpr Duration kLongestExchange = 500ms, kShortestExchange = 50ms;
/// The time for an exchange to begin, and for data on its way to arrive.
constexpr Duration kExchangeLimit = 5s;
constexpr Duration kProgressPause = 1s;

std::int64_t milliseconds_of(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

std::int64_t steady_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }
std::int64_t wall_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns a line such as "6 of 8 hosts have answered; waiting for a, b".
std::string who_is_awaited(const AgentStarter::Links& links) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> awaited;
  for (const auto& link : links) {
    if (link->phase <= AgentLink::Phase::arriving) awaited.push_back(link->host());
  }
  const std::size_t answered = links.size() - awaited.size();
  const std::string more = awaited.size() > kMostNamed ? ", ..." : "";
  awaited.resize(std::min(awaited.size(), kMostNamed));
  return fmt::format("{} of {} hosts have answered; waiting for {}{}", answered, links.size(),
                     fmt::join(awaited, ", "), more);
}

}  // namespace

Checkup::Checkup(AgentStarter starter, Settings settings)
    : starter_(std::move(starter)), settings_(std::move(settings)) {}

AgentLink& Checkup::add_host(const Host& host, bool is_here) {
  PrepareMessage order;  // only its limits matter: nothing is run
  order.peer_timeout_ms = std::llround(settings_.peer_timeout_s * 1000);
  links_.push_back(std::make_unique<AgentLink>(host.name, std::move(order),
                                               seconds_to_duration(settings_.start_timeout_s)));
  report_.hosts.push_back({.host = host, .is_here = is_here});
  patients_.emplace_back();
  return *links_.back();
}

CheckupReport Checkup::run() {
  bring_agents();
  examine();
  reach();
  measure();
  for (const auto& link : links_) link->close();
  return std::move(report_);
}

void Checkup::bring_agents() {
  const auto is_coming = [this] {
    return std::ranges::any_of(links_, [](const auto& link) {
      return link->phase == AgentLink::Phase::queued || link->phase == AgentLink::Phase::arriving;
    });
  };
  TimePoint report_at = Clock::now() + kProgressPause;
  std::string reported;
  while (is_coming()) {
    if (const auto failure = starter_.start(links_)) {
      for (std::size_t i = 0; i < links_.size(); ++i) {
        if (links_[i]->phase <= AgentLink::Phase::arriving) give_up(i, {failure->why});
      }
      return;
    }
    turn(report_at);
    if (Clock::now() < report_at) continue;
    report_at += kProgressPause;
    const std::string line = who_is_awaited(links_);
    if (line != std::exchange(reported, line)) report_progress(line);
  }
}

void Checkup::examine() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!is_well(i)) continue;
    report_.hosts[i].machine = links_[i]->machine();
    const bool has_key = settings_.key_has_come && !links_[i]->is_local();
    links_[i]->send(FrameKind::examine,
                    ExamineMessage{settings_.job_id, has_key ? "" : settings_.job_key,
                                   static_cast<std::int32_t>(i + 1), settings_.network_interfaces});
    ask_clock(i);
    patients_[i].is_awaited = true;
  }
  await_answers(kExamineLimit, "its limits and addresses");
}

void Checkup::reach() {
  std::vector<ExaminedPeer> peers;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (is_well(i) && report_.hosts[i].facts && !report_.hosts[i].facts->addresses.empty())
      peers.push_back({static_cast<std::int32_t>(i + 1), report_.hosts[i].facts->addresses});
  }
  if (peers.size() < 2) return;
  report_progress(
      fmt::format("trying {} connections between {} hosts", peers.size() * (peers.size() - 1), peers.size()));
  for (const ExaminedPeer& own : peers) {
    std::vector<ExaminedPeer> others;
    for (const ExaminedPeer& peer : peers) {
      if (peer.number != own.number) others.push_back(peer);
    }
    const auto at = static_cast<std::size_t>(own.number - 1);
    links_[at]->send(FrameKind::reach, ReachMessage{std::move(others), milliseconds_of(kReachLimit)});
    patients_[at].is_awaited = true;
  }
  const auto turns = static_cast<int>((peers.size() + kReachAtOnce - 1) / kReachAtOnce);
  await_answers(kReachLimit * turns + kExchangeLimit, "which hosts it reaches");
  std::ranges::sort(report_.routes, {},
                    [](const RouteReport& route) { return std::pair(route.from, route.to); });
}

void Checkup::measure() {
  const std::size_t count = links_.size();
  if (report_.routes.empty()) return;
  const Duration exchange =
      std::clamp(kAllExchanges / static_cast<int>(count - 1), kShortestExchange, kLongestExchange);
  report_.exchange_s = std::chrono::duration<double>(exchange).count();
  TimePoint report_at = Clock::now();
  for (std::size_t distance = 1; distance < count; ++distance) {
    if (Clock::now() >= report_at) {
      report_progress(fmt::format("measuring bandwidth, round {} of {}", distance, count - 1));
      report_at = Clock::now() + kProgressPause;
    }
    for (RouteReport& route : report_.routes) {
      if (route.to != (route.from + distance) % count || !route.trouble.empty() || !is_well(route.from) ||
          !is_well(route.to))
        continue;
      links_[route.from]->send(
          FrameKind::measure,
          MeasureMessage{static_cast<std::int32_t>(route.to + 1), route.address,
                         milliseconds_of(kExchangeLimit + exchange), milliseconds_of(exchange)});
      patients_[route.from].measured_route = &route;
      patients_[route.from].is_awaited = true;
    }
    await_answers(2 * kExchangeLimit + exchange, "the speed of its connections to other hosts");
  }
}

void Checkup::await_answers(Duration wait, std::string_view what) {
  const TimePoint limit = Clock::now() + wait;
  const auto is_awaiting = [](const Patient& patient) { return patient.is_awaited; };
  while (std::ranges::any_of(patients_, is_awaiting) && Clock::now() < limit) turn(limit);
  for (std::size_t i = 0; i < patients_.size(); ++i) {
    if (patients_[i].is_awaited)
      lose(i, fmt::format("its agent did not report within {:g} s {}",
                          std::chrono::duration<double>(wait).count(), what));
  }
}

void Checkup::turn(TimePoint limit) {
  std::vector<pollfd> entries;
  starter_.add_poll_entries(entries);
  for (const auto& link : links_) {
    link->add_poll_entries(entries);
    limit = std::min(limit, link->deadline());
  }
  (void)::poll(entries.data(), entries.size(), poll_timeout_ms(limit));
  const auto lines = starter_.take_arrivals(links_, entries);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    AgentLink& link = *links_[i];
    if (!lines.empty() && !link.is_local() && link.phase == AgentLink::Phase::arriving) give_up(i, lines);
    if (!link.is_open()) continue;
    bool is_there = true;
    for (const pollfd& entry : entries) is_there = link.handle(entry) && is_there;
    while (link.phase == AgentLink::Phase::greeted) {
      const auto frame = link.next();
      if (!frame) break;
      take_frame(i, *frame);
    }
    if (!is_there && link.is_open()) lose(i, "");
  }
  check_agents();
}

void Checkup::check_agents() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->is_late())
      lose(i, fmt::format("not ready after {:g} s (--start-timeout)", settings_.start_timeout_s));
    if (!links_[i]->keep_beating())
      lose(i, fmt::format("nothing received for {:g} s (DABKE_PEER_TIMEOUT_SECONDS)",
                          links_[i]->silence_limit_s()));
  }
}

void Checkup::take_frame(std::size_t at, const FrameChannel::Frame& frame) {
  Patient& patient = patients_[at];
  FailedMessage failed;
  ClockMessage clock;
  ReachedMessage reached;
  MeasuredMessage measured;
  ExaminedMessage facts;
  switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::failed:
      if (from_wire(frame.content, failed))
        give_up(at, {fmt::format("host {}: {}", links_[at]->host(), failed.why)});
      return;
    case FrameKind::clock:
      if (from_wire(frame.content, clock)) take_clock(at, clock);
      return;
    case FrameKind::examined:
      if (from_wire(frame.content, facts)) report_.hosts[at].facts = std::move(facts);
      patient.is_awaited = patient.clock_answers < kClockAnswers;
      return;
    case FrameKind::reached:
      if (!from_wire(frame.content, reached)) return;
      for (ReachedPeer& peer : reached.peers)
        report_.routes.push_back({.from = at,
                                  .to = static_cast<std::size_t>(peer.number - 1),
                                  .address = std::move(peer.address),
                                  .trouble = std::move(peer.trouble)});
      patient.is_awaited = false;
      return;
    case FrameKind::measured:
      if (!from_wire(frame.content, measured) || patient.measured_route == nullptr) return;
      patient.measured_route->round_trip_ns = measured.round_trip_ns;
      patient.measured_route->bytes_per_s = measured.bytes_per_s;
      patient.measured_route->trouble = measured.trouble;
      patient.is_awaited = false;
      return;
    default: return;  // other frames are not sent without a job
  }
}

void Checkup::ask_clock(std::size_t at) {
  links_[at]->send(FrameKind::beat, ClockMessage{steady_ns(), 0, 0});
}

void Checkup::take_clock(std::size_t at, const ClockMessage& clock) {
  Patient& patient = patients_[at];
  links_[at]->take_clock(clock);
  const std::int64_t trip = steady_ns() - clock.asked_ns;
  if (trip >= 0 && trip < patient.shortest_trip_ns) {
    patient.shortest_trip_ns = trip;
    report_.hosts[at].clock = ClockSkew{clock.wall_ns - (wall_ns() - trip / 2), trip / 2};
  }
  if (++patient.clock_answers < kClockAnswers) return ask_clock(at);
  if (patient.clock_answers == kClockAnswers && report_.hosts[at].facts) patient.is_awaited = false;
}

void Checkup::lose(std::size_t at, const std::string& why) {
  const bool had_arrived = links_[at]->phase != AgentLink::Phase::arriving;
  if (!why.empty()) links_[at]->kill_process();
  links_[at]->phase = AgentLink::Phase::lost;
  links_[at]->close();
  give_up(at, starter_.loss(*links_[at], had_arrived, why));
}

void Checkup::give_up(std::size_t at, std::vector<std::string> lines) {
  if (links_[at]->phase == AgentLink::Phase::arriving) links_[at]->kill_process();
  links_[at]->phase = AgentLink::Phase::lost;
  links_[at]->close();
  report_.hosts[at].trouble = std::move(lines);
  patients_[at].is_awaited = false;
}

}  // namespace dabke::launcher
