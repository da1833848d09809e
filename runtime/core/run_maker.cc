#include "runtime/core/run_maker.h"

namespace dabke {
namespace {

/// The tensors of a call are its operations' one behind the other.
RunTensor tensor_of(NegotiatedCall& call, std::size_t index) {
  auto operation = call.operations().begin();
  while (index >= (*operation)->inputs.size()) index -= (*operation++)->inputs.size();
  return {operation->get(), index, &call, &(*operation)->request->tensors[index]};
}

}  // namespace

std::unique_ptr<Run> make_run(const ExecuteAction& action, std::span<const BatchedTensor> batch,
                              const OutstandingCalls& calls, const ProcessSetTable& process_sets,
                              std::shared_ptr<Timeline> timeline) {
  const OrderedRequest& first = action.requests[batch.front().request];
  auto run = std::make_unique<Run>();
  run->process_set = process_sets.find(first.agreed->process_set);
  static_cast<ExecutedCall&>(run->batch) =
      executed(first.agreed->call_of(first.agreed->tensors[batch.front().tensor]), first.contributors,
               *run->process_set);
  run->batch.order = first.number;
  run->batch.process_set = run->process_set.get();
  run->timeline = std::move(timeline);
  run->tensors.reserve(batch.size());
  for (const auto [number, request, tensor] : batch) {
    const OrderedRequest& ordered = action.requests[request];
    if (NegotiatedCall* const call = calls.find(ordered.token)) {
      run->tensors.push_back(tensor_of(*call, tensor));
    } else {
      run->requests.push_back(ordered.request);
      run->tensors.push_back({nullptr, 0, nullptr, &ordered.request->tensors[tensor]});
    }
    if (run->timeline) run->timeline_ids.push_back(run->timeline->tensor(run->tensors.back().tensor->name));
  }
  if (run->timeline) run->timeline->op_start(run->timeline_ids, run->batch.kind);
  return run;
}

}  // namespace dabke
