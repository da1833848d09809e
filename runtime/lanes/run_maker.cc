#include "runtime/lanes/run_maker.h"

namespace dabke::lanes {
namespace {

/// The tensors of a call are those of its operations, one behind the other.
RunTensor tensor_of(NegotiatedCall& call, std::size_t index) {
  auto operation = call.operations().begin();
  while (index >= (*operation)->inputs.size()) index -= (*operation++)->inputs.size();
  return {operation->get(), index, &call, &(*operation)->request->tensors[index]};
}

/// Records the batch for the timeline from here on, and that its tensors are in it.
void record_order(const negotiation::ExecuteAction& action, std::span<const negotiation::BatchedTensor> batch,
                  Run& run) {
  timeline::Timeline& timeline = *run.timeline;
  timeline.batch_ordered();
  timeline::Record& about = run.batch.trace.about;
  about.order = about.batch = run.batch.order;
  about.number = batch.front().tensor;
  about.kind = run.kind;
  about.dtype = run.batch.dtype;
  about.process_set = run.process_set->id;
  run.batch.trace.timeline = &timeline;
  run.records.reserve(batch.size());
  const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const TensorSpec& tensor = *run.tensors[i].tensor;
    timeline::Record& record = run.records.emplace_back(about);
    record.what = timeline::Record::What::order;
    record.time_ns = now;
    record.order = action.requests[batch[i].request].number;
    record.name = timeline.tensor(tensor.name);
    record.bytes = tensor.size_bytes();
    about.bytes += record.bytes;
    timeline.put(record);
  }
}

}  // namespace

std::unique_ptr<Run> make_run(const negotiation::ExecuteAction& action,
                              std::span<const negotiation::BatchedTensor> batch,
                              const OutstandingCalls& calls, ProcessSetTable& process_sets,
                              std::shared_ptr<timeline::Timeline> timeline) {
  const negotiation::OrderedRequest& first = action.requests[batch.front().request];
  auto run = std::make_unique<Run>();
  run->kind = first.agreed->kind;
  run->process_set = process_sets.find_or_meet(first.agreed->process_set);
  static_cast<ExecutedCall&>(run->batch) =
      executed(first.agreed->call_of(first.agreed->tensors[batch.front().tensor]), first.contributors,
               *run->process_set);
  run->batch.order = first.number;
  run->batch.process_set = run->process_set.get();
  run->timeline = std::move(timeline);
  run->tensors.reserve(batch.size());
  for (const auto [number, request, tensor] : batch) {
    const negotiation::OrderedRequest& ordered = action.requests[request];
    if (NegotiatedCall* const call = calls.find(ordered.token)) {
      run->tensors.push_back(tensor_of(*call, tensor));
      if (ordered.changes != 0) run->tensors.back().operation->changes = ordered.changes;
      if (run->kind == CollectiveKind::send_recv) run->tensors.back().operation->value = ordered.agreed->root;
    } else {
      run->requests.push_back(ordered.request);
      run->tensors.push_back({nullptr, 0, nullptr, &ordered.request->tensors[tensor]});
    }
  }
  if (run->timeline) record_order(action, batch, *run);
  return run;
}

}  // namespace dabke::lanes
