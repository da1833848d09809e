#include "launcher/reach/agent_starter.h"

#include <algorithm>

#include <fmt/format.h>

#include "launcher/agent_protocol/greeting.h"

namespace dabke::launcher {
namespace {

/// sshd rejects more connections at the same time.
constexpr std::ptrdiff_t kMostUnderWay = 64;

bool is_awaited(const std::unique_ptr<AgentLink>& link) {
  return !link->is_local() && link->phase == AgentLink::Phase::arriving;
}

void add_indented(std::vector<std::string>& lines, const std::vector<std::string>& words) {
  for (const std::string& line : words) lines.push_back("  " + line);
}

}  // namespace

std::optional<AgentStarter::Failure> AgentStarter::start(const Links& links) {
  const auto is_queued = [](const auto& link) { return link->phase == AgentLink::Phase::queued; };
  if (dialled_ && !command_for_) {
    if (dialled_->is_started()) return std::nullopt;
    if (const Status started = dialled_->start(); !started.is_ok())
      return Failure{nullptr, fmt::format("no agent has started on any host: {}", started.message())};
    for (const auto& link : links) {
      if (is_queued(link)) link->await(dialled_->command());
    }
    return std::nullopt;
  }
  auto under_way = std::ranges::count_if(
      links, [](const auto& link) { return link->phase == AgentLink::Phase::arriving; });
  for (const auto& link : links) {
    if (!is_queued(link) || under_way >= kMostUnderWay) continue;
    auto process =
        command_for_ ? start_shell(command_for_(link->host())) : start_remote_agent(shell_, link->host());
    if (!process.is_ok())
      return Failure{link.get(), fmt::format("host {}: {}", link->host(), process.status().message())};
    if (command_for_) {
      link->await(process.take(), dialled_->expect(link->host()));
    } else {
      link->start(process.take());
    }
    ++under_way;
  }
  return std::nullopt;
}

void AgentStarter::give_up() {
  if (dialled_) dialled_->give_up();
}

void AgentStarter::add_poll_entries(std::vector<pollfd>& entries) const {
  if (dialled_) dialled_->add_poll_entries(entries);
}

std::vector<std::string> AgentStarter::take_arrivals(const Links& links, const std::vector<pollfd>& entries) {
  if (!dialled_) return {};
  dialled_->handle(entries);
  while (auto arrival = dialled_->take_arrival()) {
    const auto link = std::ranges::find_if(
        links, [&](const auto& each) { return is_awaited(each) && each->host() == arrival->host; });
    if (link != links.end()) (*link)->arrive(std::move(arrival->socket));
  }
  if (std::ranges::none_of(links, is_awaited) || !dialled_->has_ended()) return {};
  const int exit_code = dialled_->close();
  std::vector<std::string> lines{
      fmt::format("Slurm did not start an agent on every host: srun exited with status code {}", exit_code)};
  add_indented(lines, dialled_->words());
  lines.push_back(fmt::format("  the command was: {}", dialled_->command()));
  return lines;
}

std::vector<std::string> AgentStarter::loss(const AgentLink& link, bool had_arrived, const std::string& why) {
  const std::string how = why.empty() ? link.how_it_ended() : why;
  if (link.is_local()) return {fmt::format("the agent of this host was lost: it {}", how)};
  const auto lost = [&](const std::string& by) {
    return fmt::format("host {}: the connection to its agent was lost: {}", link.host(), by);
  };
  if (dialled_ && why.empty() && (had_arrived || !command_for_)) {
    const std::string killed = dialled_->how_it_was_killed();
    return {lost(killed.empty() ? "the agent's side closed it" : killed)};
  }
  std::vector<std::string> lines;
  if (had_arrived) {
    lines.push_back(lost(why.empty() ? fmt::format("{} {}", link.program(), how) : why));
  } else if (const auto& version = link.other_version()) {
    lines.push_back(
        fmt::format("host {}: the dabkerun there has version {}, this one has {}: install the same version "
                    "there, or give its path with --remote-dabkerun",
                    link.host(), *version, agent_version()));
  } else if (command_for_ && why.empty()) {
    lines.push_back(fmt::format("host {}: Slurm did not start an agent: srun {}", link.host(), how));
  } else {
    lines.push_back(why.empty() ? why_no_agent(shell_, link.host(), link.exit_code(), link.words())
                                : fmt::format("host {}: {}: check that it is up, and try the command below",
                                              link.host(), why));
  }
  add_indented(lines, dialled_ && !command_for_ ? dialled_->words() : link.words());
  if (!link.command().empty()) lines.push_back(fmt::format("  the command was: {}", link.command()));
  return lines;
}

}  // namespace dabke::launcher
