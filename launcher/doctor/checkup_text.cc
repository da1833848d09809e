#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "launcher/agent_protocol/greeting.h"
#include "launcher/doctor/findings.h"
#include "runtime/timeline/json_text.h"

namespace dabke::launcher {
namespace {

/// The most routes that are listed; of more routes, only the slowest are.
constexpr std::size_t kMostRoutesShown = 30;

using Row = std::vector<std::string>;

/// Formats a table. Each column is as wide as its widest cell, and no blanks end a line.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    out += line.erase(line.find_last_not_of(' ') + 1) + '\n';
  }
  return out;
}

std::string duration_text(double seconds) {
  const double size = std::abs(seconds);
  if (size < 1e-3) return fmt::format("{} us", std::lround(seconds * 1e6));
  return size < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

std::string clock_text(const HostReport& host) {
  if (!host.clock) return "-";
  const double ahead = static_cast<double>(host.clock->ahead_ns) / 1e9;
  return fmt::format("{}{} +-{}", ahead > 0 ? "+" : "", duration_text(ahead),
                     duration_text(static_cast<double>(host.clock->bound_ns) / 1e9));
}

std::string cores_text(const ExaminedMessage& facts) {
  std::string text = fmt::format("{} of {}", facts.usable_units, facts.all_units);
  if (facts.quota_thousandths > 0)
    text += fmt::format(", quota {:g}", static_cast<double>(facts.quota_thousandths) / 1000);
  return text;
}

std::string limit_text(std::int64_t limit) {
  if (limit < 0) return "-";
  return limit == INT64_MAX ? "none" : fmt::format("{}", limit);
}

Row row_of(const HostReport& host) {
  const std::string name = host.is_here ? host.host.name + " (this one)" : host.host.name;
  const std::string slots = fmt::format("{}", host.host.slots);
  if (!host.facts) return {name, slots, "no"};
  const ExaminedMessage& facts = *host.facts;
  return {name,
          slots,
          host.trouble.empty() ? "yes" : "lost",
          clock_text(host),
          cores_text(facts),
          fmt::format("{} of {}", size_text(facts.free_memory), size_text(facts.memory)),
          fmt::format("{} of {}", size_text(facts.free_shm), size_text(facts.shm)),
          limit_text(facts.open_files),
          limit_text(facts.processes),
          size_text(facts.locked_memory),
          fmt::format("{}-{}", limit_text(facts.first_port), limit_text(facts.last_port))};
}

std::string hosts_table(const CheckupReport& report) {
  std::vector<Row> rows{{"host", "slots", "agent", "clock ahead", "processors", "memory free",
                         "/dev/shm free", "files", "processes", "locked", "ports"}};
  for (const HostReport& host : report.hosts) rows.push_back(row_of(host));
  return table(rows);
}

std::string routes_table(const CheckupReport& report) {
  if (report.routes.empty()) return "";
  std::vector<RouteReport> routes = report.routes;
  std::erase_if(routes, [](const RouteReport& route) { return !route.trouble.empty(); });
  std::string heading =
      fmt::format("\nConnections between hosts, each measured for {:g} s over TCP:\n", report.exchange_s);
  if (routes.size() > kMostRoutesShown) {
    std::ranges::sort(routes, {}, &RouteReport::bytes_per_s);
    heading =
        fmt::format("\nThe slowest {} of {} connections between hosts, each measured for {:g} s over TCP:\n",
                    kMostRoutesShown, routes.size(), report.exchange_s);
    routes.resize(kMostRoutesShown);
  }
  if (routes.empty()) return "";
  std::vector<Row> rows{{"from", "to", "at", "round trip", "bandwidth"}};
  for (const RouteReport& route : routes) {
    const bool is_measured = route.bytes_per_s > 0;
    rows.push_back({report.hosts[route.from].host.name, report.hosts[route.to].host.name, route.address,
                    is_measured ? duration_text(static_cast<double>(route.round_trip_ns) / 1e9) : "-",
                    is_measured ? size_text(route.bytes_per_s) + "/s" : "-"});
  }
  return heading + table(rows);
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ",") + timeline::json_string(text);
  return "[" + out + "]";
}

std::string json_of(const HostReport& host) {
  std::string out = fmt::format("{{\"host\":{},\"slots\":{},\"is_here\":{},\"is_well\":{},\"trouble\":{}",
                                timeline::json_string(host.host.name), host.host.slots, host.is_here,
                                host.trouble.empty(), json_list(host.trouble));
  if (host.clock)
    out += fmt::format(",\"clock_ahead_ns\":{},\"clock_bound_ns\":{}", host.clock->ahead_ns,
                       host.clock->bound_ns);
  if (host.facts) {
    const ExaminedMessage& facts = *host.facts;
    out += fmt::format(
        ",\"host_name\":{},\"processors\":{},\"all_processors\":{},\"processor_quota\":{:g},\"memory\":{},"
        "\"free_memory\":{},\"shm\":{},\"free_shm\":{},\"open_files\":{},\"processes\":{},\"locked_memory\":{"
        "},"
        "\"first_port\":{},\"last_port\":{},\"listens_at\":{},\"listening_troubles\":{}",
        timeline::json_string(facts.host_name), facts.usable_units, facts.all_units,
        static_cast<double>(facts.quota_thousandths) / 1000, facts.memory, facts.free_memory, facts.shm,
        facts.free_shm, facts.open_files, facts.processes, facts.locked_memory, facts.first_port,
        facts.last_port, json_list(facts.addresses), json_list(facts.troubles));
  }
  return out + "}";
}

}  // namespace

std::string checkup_text(const CheckupReport& report) {
  const auto findings = findings_of(report);
  std::string out =
      fmt::format("dabkerun {}\n\n", agent_version()) + hosts_table(report) + routes_table(report) + '\n';
  for (const Finding& finding : findings) {
    out += fmt::format("{}: {}\n", finding.is_wrong ? "wrong" : "note", finding.what);
    for (const std::string& line : finding.words) out += line + '\n';
  }
  if (is_well(findings)) out += "Nothing is wrong.\n";
  return out;
}

std::string checkup_json(const CheckupReport& report) {
  std::string hosts, routes, findings;
  for (const HostReport& host : report.hosts) hosts += (hosts.empty() ? "" : ",\n") + json_of(host);
  for (const RouteReport& route : report.routes)
    routes += fmt::format(
        "{}{{\"from\":{},\"to\":{},\"address\":{},\"round_trip_ns\":{},\"bytes_per_s\":{},\"trouble\":{}}}",
        routes.empty() ? "" : ",\n", timeline::json_string(report.hosts[route.from].host.name),
        timeline::json_string(report.hosts[route.to].host.name), timeline::json_string(route.address),
        route.round_trip_ns, route.bytes_per_s, timeline::json_string(route.trouble));
  const auto all = findings_of(report);
  for (const Finding& finding : all)
    findings += fmt::format("{}{{\"is_wrong\":{},\"what\":{},\"words\":{}}}", findings.empty() ? "" : ",\n",
                            finding.is_wrong, timeline::json_string(finding.what), json_list(finding.words));
  return fmt::format(
      "{{\"version\":{},\"exchange_s\":{:g},\"is_well\":{},\n\"hosts\":[{}],\n\"ways\":[{}],\n\"findings\":[{"
      "}]}}\n",
      timeline::json_string(agent_version()), report.exchange_s, is_well(all), hosts, routes, findings);
}

}  // namespace dabke::launcher
