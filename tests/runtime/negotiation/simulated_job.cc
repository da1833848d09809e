#include "tests/runtime/negotiation/simulated_job.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::test {
namespace {

std::vector<std::string> batches_of(const negotiation::ExecuteAction& action) {
  std::vector<std::string> batches;
  for (std::size_t i = 0; i < action.tensors.size(); ++i) {
    const negotiation::BatchedTensor& here = action.tensors[i];
    const Request& request = *action.requests[here.request].agreed;
    if (i == 0 || here.batch != action.tensors[i - 1].batch) {
      batches.push_back(fmt::format("{}:", request.process_set));
    } else {
      batches.back() += ",";
    }
    batches.back() += " " + request.tensors[here.tensor].name;
  }
  return batches;
}

}  // namespace

Request allreduce(const std::string& name, Shape shape, ProcessSetId set) {
  Request request = plain(CollectiveKind::allreduce, name, set);
  request.tensors = {{name, DType::f32, std::move(shape)}};
  return request;
}

Request plain(CollectiveKind kind, const std::string& name, ProcessSetId set) {
  Request request;
  request.kind = kind;
  request.name = name;
  request.process_set = set;
  return request;
}

SimulatedJob::SimulatedJob(int size, unsigned seed, negotiation::Negotiator::Options options,
                           const std::vector<Rank>& without_devices)
    : random_(seed) {
  now_ += std::chrono::hours(1);
  if (!options.topology)
    options.topology = std::make_shared<const negotiation::Topology>(size, std::vector<std::string>(), 8);
  topology_ = options.topology;
  for (Rank rank = 0; rank < size; ++rank) {
    options.rank = rank;
    options.serves =
        std::ranges::count(without_devices, rank) == 0 ? DeviceTypes{DeviceType::cuda} : DeviceTypes{};
    ranks_.emplace_back().negotiator = std::make_unique<negotiation::Negotiator>(options);
  }
}

std::shared_ptr<const negotiation::Topology> tree_of(int size, int ranks_per_host, int radix) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(fmt::format("node{}", rank / ranks_per_host));
  return std::make_shared<const negotiation::Topology>(size, std::move(hosts), radix);
}

void SimulatedJob::advance(Duration by) {
  now_ += by;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (ranks_[static_cast<std::size_t>(rank)].stopped) continue;
    negotiator(rank).tick(now_);
    take_actions(rank);
  }
}

negotiation::Token SimulatedJob::submit(Rank rank, Request request) {
  const negotiation::Token token{++submitted_};
  outcomes_[token];
  negotiator(rank).submit(token, std::make_shared<const Request>(std::move(request)), now_);
  take_actions(rank);
  return token;
}

void SimulatedJob::take_actions(Rank rank) {
  SimulatedRank& self = ranks_[static_cast<std::size_t>(rank)];
  if (self.dead) return;
  for (negotiation::Action& action : self.negotiator->take_actions(now_)) {
    if (auto* send = std::get_if<negotiation::SendAction>(&action)) {
      links_[{rank, send->peer}].push_back(send->message);
      ++messages_;
      bytes_ += send->message->size();
    } else if (auto* execute = std::get_if<negotiation::ExecuteAction>(&action)) {
      for (std::string& batch : batches_of(*execute)) self.batches.push_back(std::move(batch));
      for (const negotiation::OrderedRequest& ordered : execute->requests) {
        numbers_increase_ = numbers_increase_ && ordered.number > self.last_number;
        self.last_number = ordered.number;
        self.executed.push_back(fmt::format("{}:{}", ordered.agreed->process_set, ordered.agreed->name));
        if (ordered.token == negotiation::Token::none) continue;
        Outcome& outcome = outcomes_[ordered.token];
        ++outcome.completions;
        outcome.ran = true;
        outcome.contributors = ordered.contributors;
      }
    } else if (auto* done = std::get_if<negotiation::CompleteAction>(&action)) {
      Outcome& outcome = outcomes_[done->token];
      ++outcome.completions;
      outcome.status = done->status;
      outcome.value = done->value;
    } else if (auto* warn = std::get_if<negotiation::WarnAction>(&action)) {
      warnings_.push_back(warn->text);
      briefs_.push_back(warn->brief);
      self.warnings.push_back(warn->text);
    } else if (auto* dump = std::get_if<negotiation::DumpAction>(&action)) {
      self.dumps.push_back(std::move(*dump));
    } else if (auto* changed = std::get_if<negotiation::TimelineAction>(&action)) {
      self.timeline.emplace_back(self.last_number, std::move(changed->change));
    } else if (std::holds_alternative<negotiation::StackAction>(action)) {
      ++self.stacks_wanted;
    } else if (std::holds_alternative<negotiation::FiguresAction>(action)) {
      self.negotiator->give_figures({.rank = rank, .step = self.last_number}, now_);
      take_actions(rank);
    } else if (std::holds_alternative<negotiation::OverAction>(action)) {
      self.over = true;
    }
  }
}

bool SimulatedJob::step() {
  std::vector<std::pair<Rank, Rank>> full;
  for (auto& [link, queue] : links_) {
    if (!queue.empty() && !ranks_[static_cast<std::size_t>(link.second)].stopped) full.push_back(link);
  }
  if (full.empty()) {
    if (losses_.empty()) return false;
    const Rank lost = losses_.back();
    losses_.pop_back();
    for (const Rank rank : topology_->neighbours(lost)) {
      negotiator(rank).peer_lost(lost, {Code::peer_lost, fmt::format("rank {}: connection reset", lost)});
      take_actions(rank);
    }
    return true;
  }
  const auto [from, to] = full[random_() % full.size()];
  return step_link(from, to);
}

bool SimulatedJob::step_link(Rank from, Rank to) {
  if (!deliver(from, to)) return false;
  take_actions(to);
  return true;
}

bool SimulatedJob::deliver(Rank from, Rank to) {
  auto& link = links_[{from, to}];
  if (link.empty()) return false;
  const auto message = std::move(link.front());
  link.pop_front();
  if (!ranks_[static_cast<std::size_t>(to)].dead) negotiator(to).message_from(from, *message, now_);
  return true;
}

void SimulatedJob::run() {
  while (step()) {
  }
}

void SimulatedJob::kill(Rank rank) {
  ranks_[static_cast<std::size_t>(rank)].dead = true;
  losses_.push_back(rank);
}

bool SimulatedJob::all_complete() const {
  for (const auto& [token, outcome] : outcomes_) {
    if (outcome.completions != 1) return false;
  }
  return true;
}

}  // namespace dabke::test
