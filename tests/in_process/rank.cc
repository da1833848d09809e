#include "tests/in_process/rank.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::testing {

OperationRef Rank::make(CollectiveKind kind, std::vector<Argument> arguments, const Call& call) {
  auto operation = OperationRef::adopt(new Operation);
  Request& request = *operation->request;
  request.kind = kind;
  request.name = call.name.empty() ? fmt::format("tensor {}", ++calls_) : call.name;
  request.process_set = call.set;
  request.op = call.op;
  request.root = call.root;
  request.prescale = call.prescale;
  request.postscale = call.postscale;
  if (call.compression) operation->compression = *call.compression;
  request.priority = call.priority;
  for (Argument& argument : arguments) {
    std::string name = argument.name;
    if (name.empty()) {
      name =
          arguments.size() == 1 ? request.name : fmt::format("{}.{}", request.name, request.tensors.size());
    }
    request.tensors.push_back({std::move(name), argument.input.dtype, argument.input.shape});
    operation->inputs.push_back(std::move(argument.input));
    operation->outputs.push_back(std::move(argument.output));
  }
  if (arguments.size() > 1) request.name = request.tensors.front().name;
  if (!call.splits.empty() || !call.group.empty() || call.callback) {
    Operation::Extras& extras = operation->make_extras();
    extras.splits = call.splits;
    request.is_group = !call.group.empty();
    extras.group = call.group;
    extras.group_size = call.group_size;
    extras.callback = call.callback;
  }
  return operation;
}

Pending Rank::start(CollectiveKind kind, std::vector<Argument> arguments, const Call& call) {
  return submit(make(kind, std::move(arguments), call));
}

Status Rank::run(CollectiveKind kind, std::vector<Argument> arguments, const Call& call) {
  const OperationRef operation = make(kind, std::move(arguments), call);
  remember(operation);
  return runtime_->run(operation);
}

Pending Rank::submit(OperationRef operation) {
  if (Status refused = runtime_->submit(operation); !refused) return Pending(std::move(refused));
  remember(operation);
  return Pending(std::move(operation), *runtime_);
}

void Rank::remember(const OperationRef& operation) {
  const std::lock_guard lock(mutex_);
  submitted_.push_back(operation);
  if (submitted_.size() >= 256) {
    std::erase_if(submitted_, [](const OperationRef& one) { return one->is_done(); });
  }
}

Pending Rank::barrier_async(const Call& call) {
  Call named = call;
  if (named.name.empty()) named.name = "barrier";
  return start(CollectiveKind::barrier, {}, named);
}

Pending Rank::join_async(ProcessSetId set) {
  return start(CollectiveKind::join, {}, {.name = "join", .set = set});
}

Result<int> Rank::join(ProcessSetId set) {
  const Pending joined = join_async(set);
  DABKE_RETURN_IF_ERROR(joined.wait());
  return static_cast<int>(joined.value());
}

Result<ProcessSetId> Rank::try_add_process_set(std::vector<int> ranks) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = CollectiveKind::add_process_set;
  operation->request->name = "add_process_set";
  operation->request->ranks = std::move(ranks);
  const Pending added = submit(std::move(operation));
  DABKE_RETURN_IF_ERROR(added.wait());
  return static_cast<ProcessSetId>(added.value());
}

Status Rank::remove_process_set(ProcessSetId set) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = CollectiveKind::remove_process_set;
  operation->request->name = "remove_process_set";
  operation->request->ranks = {set};
  return submit(std::move(operation)).wait();
}

std::string Rank::describe() {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format("rank {}: {}", rank_, phase_.load());
  if (runtime_) {
    const Statistics& now = runtime_->statistics();
    text += fmt::format("; submitted {}, completed {}, batches {}, messages sent {}, received {}",
                        now.tensors_submitted.load(), now.tensors_completed.load(), now.batches.load(),
                        now.messages_sent.load(), now.messages_received.load());
  }
  constexpr int kShown = 20;
  int shown = 0;
  for (const OperationRef& operation : submitted_) {
    if (operation->is_done() || ++shown > kShown) continue;
    const double age = std::chrono::duration<double>(Clock::now() - operation->submitted_at).count();
    text +=
        fmt::format("\n    pending for {:.1f} s: '{}' in process set {}: {}", age, operation->request->name,
                    operation->request->process_set, operation->request->describe());
  }
  if (shown > kShown) text += fmt::format("\n    and {} more", shown - kShown);
  return text;
}

void Rank::close() {
  set_phase("shutting down");
  (void)runtime_->shut_down();
  set_phase("shut down");
}

}  // namespace dabke::testing
