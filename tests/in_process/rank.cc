#include "tests/in_process/rank.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/bytes.h"

namespace dabke::test {

namespace {

/// True if the test has given an output, even one without elements and so without memory.
bool is_given(const TensorView& output) { return output.data != nullptr || output.shape.rank() != 0; }

}  // namespace

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
  if (has_free_rows(kind) && std::ranges::any_of(operation->outputs, is_given))
    operation->make_extras().gives_outputs = true;
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

TensorView DeviceCopies::bring(const TensorView& host, bool is_copied_back) {
  TensorView there = host;
  there.device = {DeviceType::cuda, device_.index()};
  if (host.data == nullptr) return there;
  // The copy is aligned as badly as the test's tensor.
  const std::size_t odd = reinterpret_cast<std::uintptr_t>(host.data) % 64;
  DeviceBuffer memory = allocate_from(device_.tensor_memory(), odd + host.size_bytes());
  if (memory == nullptr) {
    must(device_.tensor_memory()->state());  // a lost device has no memory, and this reports why
    throw std::runtime_error("the test's device has no memory");
  }
  there.data = static_cast<std::byte*>(memory.get()) + odd;
  device_.write(there.data, host.data, host.size_bytes());
  const std::lock_guard lock(mutex_);
  copies_.push_back({std::move(memory), host, is_copied_back ? there.data : nullptr});
  return there;
}

void DeviceCopies::fetch(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_fetched_, true) || operation.code() != Code::ok) return;
  for (const Copy& copy : copies_) {
    if (copy.device != nullptr) device_.read(copy.host.data, copy.device, copy.host.size_bytes());
  }
  for (std::size_t i = 0; i < tensors_; ++i) {
    const TensorView& made = operation.outputs[i];
    auto& bytes = outputs_.emplace_back(made.size_bytes());
    device_.read(bytes.data(), made.data, bytes.size());
  }
}

TensorView DeviceCopies::output(const Operation& operation, std::size_t index) {
  fetch(operation);
  const std::lock_guard lock(mutex_);
  TensorView view = operation.outputs[index];
  view.device = {};
  view.data = index < outputs_.size() ? outputs_[index].data() : nullptr;
  return view;
}

/// Replaces the test's tensors by copies on the device. Returns null if the call is on the host.
std::shared_ptr<DeviceCopies> Rank::bring_to_device(Operation& operation, const Call& call) {
  if (!device_ || !call.on_device.value_or(true) || operation.inputs.empty()) return nullptr;
  auto copies = std::make_shared<DeviceCopies>(*device_, operation.inputs.size());
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    TensorView& input = operation.inputs[i];
    TensorView& output = operation.outputs[i];
    const bool has_own_output = output.data != nullptr && output.data != input.data;
    const CollectiveKind kind = operation.request->kind;
    const bool in_place = !has_own_output && is_whole(kind);
    const bool is_same = output.data != nullptr && output.data == input.data;
    if (overlap(input, output) && !is_whole(kind)) {  // copied as one tensor that covers both
      std::byte* const begin = std::min(bytes_of(input.data), bytes_of(output.data));
      std::byte* const end =
          std::max(bytes_of(input.data) + input.size_bytes(), bytes_of(output.data) + output.size_bytes());
      const auto elements = (end - begin) / static_cast<std::ptrdiff_t>(size_of(input.dtype));
      const TensorView both = copies->bring({begin, input.dtype, {}, Shape{elements}}, true);
      input.data = bytes_of(both.data) + (bytes_of(input.data) - begin);
      output.data = bytes_of(both.data) + (bytes_of(output.data) - begin);
      input.device = output.device = both.device;
      continue;
    }
    input = copies->bring(input, in_place);
    if (has_own_output || (is_given(output) && output.data == nullptr)) output = copies->bring(output, true);
    if (is_same) {
      output.data = input.data;
      output.device = input.device;
    }
  }
  if (operation.extras().callback) {
    auto& callback = operation.make_extras().callback;
    callback = [copies, then = std::move(callback)](Operation& done) {
      copies->fetch(done);
      then(done);
    };
  }
  return copies;
}

Pending Rank::start(CollectiveKind kind, std::vector<Argument> arguments, const Call& call) {
  OperationRef operation = make(kind, std::move(arguments), call);
  if (call.message) {
    const Status made =
        core::become_message(*operation->request, *call.message, runtime_->process_sets(), rank_);
    if (!made.is_ok()) return Pending(made);
  }
  auto copies = bring_to_device(*operation, call);
  return submit(std::move(operation), std::move(copies));
}

Status Rank::run(CollectiveKind kind, std::vector<Argument> arguments, const Call& call) {
  const OperationRef operation = make(kind, std::move(arguments), call);
  const auto copies = bring_to_device(*operation, call);
  remember(operation, copies);
  Status status = runtime_->run(operation);
  if (status.is_ok() && copies) copies->fetch(*operation);
  return status;
}

Pending Rank::submit(OperationRef operation, std::shared_ptr<DeviceCopies> copies) {
  if (Status refused = runtime_->submit(operation); !refused.is_ok()) return Pending(std::move(refused));
  remember(operation, copies);
  return Pending(std::move(operation), *runtime_, std::move(copies));
}

void Rank::remember(const OperationRef& operation, std::shared_ptr<DeviceCopies> copies) {
  const std::lock_guard lock(mutex_);
  submitted_.push_back({operation, std::move(copies)});
  if (submitted_.size() >= 256) {
    std::erase_if(submitted_, [](const Submitted& one) { return one.operation->is_done(); });
  }
}

Pending Rank::barrier_async(const Call& call) {
  Call named = call;
  if (named.name.empty()) named.name = "barrier";
  return start(CollectiveKind::barrier, {}, named);
}

Pending Rank::join_async(ProcessSetId set) {
  OperationRef operation = make(CollectiveKind::join, {}, {.name = "join", .set = set});
  if (device_) operation->make_extras().join_device = Device{DeviceType::cuda, device_->index()};
  return submit(std::move(operation));
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

Pending Rank::change_set_among_members(CollectiveKind kind, std::vector<int> ranks) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = kind;
  operation->request->name = name_of(kind);
  operation->request->ranks = std::move(ranks);
  return submit(std::move(operation));
}

std::string Rank::describe() {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format("rank {}: {}", rank_, phase_.load());
  if (runtime_) {
    const reports::Statistics& now = runtime_->statistics();
    text += fmt::format("; submitted {}, completed {}, batches {}, messages sent {}, received {}",
                        now.tensors_submitted.load(), now.tensors_completed.load(), now.batches.load(),
                        now.messages_sent.load(), now.messages_received.load());
  }
  constexpr int kShown = 20;
  int shown = 0;
  for (const auto& [operation, copies] : submitted_) {
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

}  // namespace dabke::test
