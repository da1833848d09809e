#include "tests/runtime/negotiation/simulated_job.h"

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

negotiation::Negotiator::Options on_one_host_unless_given(int size,
                                                          negotiation::Negotiator::Options options) {
  if (!options.topology)
    options.topology = std::make_shared<const negotiation::Topology>(size, std::vector<std::string>(), 8);
  return options;
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
    : simulation_(on_one_host_unless_given(size, std::move(options)), without_devices),
      random_(seed),
      ranks_(static_cast<std::size_t>(size)) {}

void SimulatedJob::advance(Duration by) {
  simulation_.advance_to(now() + by);
  for (Rank rank = 0; rank < size(); ++rank) {
    if (ranks_[static_cast<std::size_t>(rank)].stopped) continue;
    simulation_.tick(rank);
    take_actions(rank);
  }
}

negotiation::Token SimulatedJob::submit(Rank rank, Request request) {
  const negotiation::Token token = hand_in(rank, std::move(request));
  take_actions(rank);
  return token;
}

negotiation::Token SimulatedJob::hand_in(Rank rank, Request request) {
  const negotiation::Token token =
      simulation_.submit(rank, std::make_shared<const Request>(std::move(request)));
  outcomes_[token];
  return token;
}

void SimulatedJob::send(Rank from, const negotiation::SendAction& action) {
  links_[{from, action.peer}].push_back(action.message);
  ++messages_;
  bytes_ += action.message->size();
}

void SimulatedJob::execute(Rank rank, const negotiation::ExecuteAction& action) {
  SimulatedRank& self = ranks_[static_cast<std::size_t>(rank)];
  for (std::string& batch : batches_of(action)) self.batches.push_back(std::move(batch));
  for (const negotiation::OrderedRequest& ordered : action.requests) {
    self.executed.push_back(fmt::format("{}:{}", ordered.agreed->process_set, ordered.agreed->name));
    if (ordered.token == negotiation::Token::none) continue;
    simulation_.invariants().tokens().complete(rank, ordered.token);
    Outcome& outcome = outcomes_[ordered.token];
    ++outcome.completions;
    outcome.ran = true;
    outcome.contributors = ordered.contributors;
    outcome.changes = ordered.changes;
  }
}

void SimulatedJob::complete(Rank, const negotiation::CompleteAction& action) {
  Outcome& outcome = outcomes_[action.token];
  ++outcome.completions;
  outcome.status = action.status;
  outcome.value = action.value;
  outcome.changes = action.changes;
}

void SimulatedJob::note(Rank rank, negotiation::Action& action) {
  SimulatedRank& self = ranks_[static_cast<std::size_t>(rank)];
  const std::uint64_t last_number = simulation_.invariants().last_number(rank);
  if (auto* warn = std::get_if<negotiation::WarnAction>(&action)) {
    warnings_.push_back(warn->text);
    briefs_.push_back(warn->brief);
    self.warnings.push_back(warn->text);
  } else if (auto* dump = std::get_if<negotiation::DumpAction>(&action)) {
    self.dumps.push_back(std::move(*dump));
  } else if (auto* changed = std::get_if<negotiation::TimelineAction>(&action)) {
    self.timeline.emplace_back(last_number, std::move(changed->change));
  } else if (std::holds_alternative<negotiation::StackAction>(action)) {
    ++self.stacks_wanted;
  } else if (std::holds_alternative<negotiation::FiguresAction>(action)) {
    negotiator(rank).give_figures({.rank = rank, .step = last_number}, now());
    take_actions(rank);
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
    for (const Rank rank : simulation_.topology()->neighbours(lost)) {
      simulation_.report_loss(lost, rank);
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
  simulation_.deliver(from, to, *message);
  return true;
}

void SimulatedJob::run() {
  while (step()) {
  }
}

void SimulatedJob::kill(Rank rank) {
  simulation_.kill(rank);
  losses_.push_back(rank);
}

bool SimulatedJob::all_complete() const {
  for (const auto& [token, outcome] : outcomes_) {
    if (outcome.completions != 1) return false;
  }
  return true;
}

}  // namespace dabke::test
