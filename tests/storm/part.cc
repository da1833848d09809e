#include "part.h"

#include <unistd.h>

#include <array>
#include <cstring>

#include "faults.h"

namespace storm {
namespace {

constexpr double kGlanceSeconds = 0.0005;
constexpr std::size_t kMostShownOfName = 40;

DLDataType dlpack_of(Dtype dtype) {
  const DtypeRow& row = row_of(dtype);
  return {static_cast<std::uint8_t>(row.code), static_cast<std::uint8_t>(row.bits), 1};
}

/// The name on one line.
std::string printable(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, kMostShownOfName)) text += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return name.size() > kMostShownOfName ? text + "..." : text;
}

}  // namespace

struct Part::Tensor {
  std::size_t index = 0;  // its index in the call
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> input_shape, output_shape;
  Buffer input_memory, output_memory;
  DLTensor input{}, output{};
  bool has_output = false;  // true if an output is passed
  bool is_in_place = true;
};

Part::Part(const Here& here, const Call& call, std::size_t first, std::size_t count, Random random)
    : here_(here),
      call_(call),
      first_(first),
      oracle_(here.program.seed, call_, here.ranks_of(call.set)),
      random_(random) {
  for (std::size_t i = 0; i < count; ++i) {
    tensors_.push_back(std::make_unique<Tensor>());
    tensors_.back()->index = first + i;
  }
  if (call_.is_on_device && random_.chance(50)) stream_ = random_.below(4);
  make_tensors();
  if (!call_.followers.empty()) {
    const Call& next = call_.followers[0];
    follower_ = std::make_unique<Part>(here, next, 0, next.tensors.size(), Random(random_.next()));
  }
  set_options();
}

Part::~Part() { dabke_handle_free(handle_); }

Buffer Part::buffer(std::size_t size_bytes, std::size_t offset, bool is_registered) const {
  const auto home = call_.is_on_device ? Buffer::Home::device
                    : is_registered    ? Buffer::Home::registered
                                       : Buffer::Home::heap;
  return {size_bytes, offset, home, here_.rank};
}

void Part::make_tensors() {
  for (const auto& tensor : tensors_) {
    Tensor& t = *tensor;
    t.dtype = call_.tensors[t.index].dtype;
    t.input_shape = oracle_.input_shape(t.index, here_.rank);
    const auto bytes = static_cast<std::size_t>(elements_of(t.input_shape)) * size_of(t.dtype);
    const std::size_t offset =
        random_.chance(30) ? size_of(t.dtype) * static_cast<std::size_t>(random_.below(7)) : 0;
    if (bytes != 0 || random_.chance(50))
      t.input_memory = buffer(bytes, offset, random_.chance(here_.program.registered_percent));
    if (bytes != 0 && stream_ < 0) oracle_.fill(t.index, here_.rank, t.input_memory.data());
    t.input.data = t.input_memory.data();
    t.input.device = call_.is_on_device ? DLDevice{kDLCUDA, here_.rank} : DLDevice{kDLCPU, 0};
    t.input.ndim = static_cast<std::int32_t>(t.input_shape.size());
    t.input.dtype = dlpack_of(t.dtype);
    t.input.shape = t.input_shape.data();
    choose_output(t, t.index);
  }
}

void Part::choose_output(Tensor& t, std::size_t index) {
  t.output_shape = oracle_.output_shape(index, here_.rank);
  t.output = t.input;
  t.output.ndim = static_cast<std::int32_t>(t.output_shape.size());
  t.output.shape = t.output_shape.data();
  const bool is_odd = has(call_.odd, here_.rank);
  if (call_.ending == Ending::misfit && is_odd) ++t.output_shape[0];
  const auto bytes = static_cast<std::size_t>(elements_of(t.output_shape)) * size_of(t.dtype);
  if (has_own_rows(call_.kind)) {
    t.is_in_place = false;
    t.has_output = call_.form == Form::single && !refuses_outputs() &&
                   (call_.ending == Ending::misfit ? is_odd || random_.chance(70) : random_.chance(40));
    if (!t.has_output) return;
    if (bytes != 0 || random_.chance(50))
      t.output_memory = buffer(bytes, 0, random_.chance(here_.program.registered_percent));
    t.output.data = t.output_memory.data();
    return;
  }
  const int how = refuses_outputs() || call_.kind == Kind::message ? 0 : random_.below(3);
  if (call_.kind == Kind::reducescatter ? how > 0 : how == 2) {
    t.output_memory = buffer(bytes, 0, random_.chance(here_.program.registered_percent));
    t.output.data = t.output_memory.data();
    t.has_output = true;
    t.is_in_place = false;
  } else if (call_.kind == Kind::reducescatter) {
    t.is_in_place = false;
  } else {
    t.has_output = how == 1;  // the input's memory is passed a second time
  }
}

void Part::set_options() {
  options_.process_set = here_.ids[static_cast<std::size_t>(call_.set)];
  options_.op = call_.op;
  options_.root_rank = call_.root;
  options_.tag = call_.tag;
  options_.prescale_factor = call_.prescale;
  options_.postscale_factor = call_.postscale;
  options_.compression = call_.compression;
  if (random_.chance(10)) options_.priority = random_.between(-2, 2);  // each rank may want another priority
  if (call_.kind == Kind::alltoall && !call_.equal_splits) {
    splits_ = oracle_.splits(here_.rank);
    options_.splits = splits_.data();
    options_.splits_count = splits_.size();
  }
  if (call_.form == Form::members) {
    options_.group = call_.key.c_str();
    options_.group_size = static_cast<std::uint32_t>(call_.tensors.size());
  }
  if (refuses_outputs()) {
    options_.output_allocator = [](void*, std::size_t, DLTensor*) { return 1; };
  } else if (random_.chance(30)) {
    options_.output_allocator = allocate;
    options_.output_allocator_context = this;
    allocated_.resize(tensors_.size());
  }
  if (random_.chance(15) || follower_) {
    called_ = std::make_unique<Called>();
    called_->follower = follower_.get();
    options_.callback = called;
    options_.callback_context = called_.get();
    // Otherwise the handle has its outputs.
    wants_handle_ = has_own_rows(call_.kind) || call_.kind == Kind::reducescatter || random_.chance(50);
  }
}

int Part::allocate(void* context, std::size_t index, DLTensor* tensor) {
  auto& part = *static_cast<Part*>(context);
  std::size_t bytes = static_cast<std::size_t>(tensor->dtype.bits) / 8;
  for (std::int32_t i = 0; i < tensor->ndim; ++i) bytes *= static_cast<std::size_t>(tensor->shape[i]);
  if (index >= part.allocated_.size())
    part.fail("the output allocator is asked for tensor " + std::to_string(index));
  part.allocated_[index] =
      part.buffer(bytes, 0, bytes % 3 == 0 && part.here_.program.registered_percent != 0);
  tensor->data = part.allocated_[index].data();
  return 0;
}

void Part::called(void* context, dabke_handle* handle, dabke_status status) {
  auto& called = *static_cast<Called*>(context);
  if (called.follower != nullptr && called.times == 0) called.follower->submit(false);
  const std::lock_guard lock(called.mutex);
  ++called.times;
  called.status = dabke_handle_status(handle) == status ? status : DABKE_ERROR_INTERNAL;
  called.changed.notify_all();
}

bool Part::spoil() {
  if (tensors_.empty() || stream_ >= 0) return false;
  Tensor& t = *tensors_.front();
  const bool is_seen = call_.ending == Ending::ok && call_.kind == Kind::allreduce && call_.op == DABKE_SUM &&
                       call_.prescale == 1 && call_.postscale == 1 && is_integer(t.dtype) &&
                       elements_of(t.input_shape) > 0;
  if (!is_seen) return false;
  *t.input_memory.data() ^= std::byte{1};
  return true;
}

bool Part::refuses_outputs() const { return call_.ending == Ending::no_output && has(call_.odd, here_.rank); }

bool Part::has_outputs() const {
  for (const auto& tensor : tensors_) {
    if (!tensor->has_output) return false;
  }
  return true;
}

/// A blocking reducescatter has no handle that could own its output.
bool Part::can_block() const {
  return call_.form != Form::members && (call_.kind != Kind::reducescatter || has_outputs());
}

/// Runs on the submitting thread, because the stream may be that thread's own.
void Part::produce_on_stream() {
  producer_ = stream_of(here_.rank, stream_);
  for (const auto& tensor : tensors_) {
    producer_->enqueue([this, t = tensor.get(), delay_us = random_.below(1000)] {
      ::usleep(static_cast<useconds_t>(delay_us));
      if (elements_of(t->input_shape) != 0) oracle_.fill(t->index, here_.rank, t->input_memory.data());
    });
  }
  if (random_.chance(30)) {
    event_ = producer_->record();
    options_.ready_event = event_.get();
  } else {
    options_.stream = producer_->handle();
  }
}

void Part::submit(bool may_block) {
  pending_.emplace(what());
  if (stream_ >= 0) produce_on_stream();
  const bool blocks = may_block && can_block();
  const dabke_status status = call_.form == Form::grouped ? start_grouped(blocks) : start(blocks);
  if (blocks) {
    has_blocked_ = true;
    blocked_status_ = status;
    if (status != DABKE_OK) blocked_message_ = dabke_last_error();
  } else if (status != DABKE_OK) {
    is_refused_ = is_excused(what(), status, dabke_last_error());
    if (is_refused_ && producer_) producer_->synchronize();
    if (is_refused_) return pending_.reset();
    fail(std::string("was refused: ") + dabke_status_name(status) + ": " + dabke_last_error());
  }
  if (!blocks && wants_handle_ && handle_ == nullptr) fail("was accepted without a handle");
}

dabke_status Part::start(bool blocks) {
  dabke_handle** const handle = wants_handle_ ? &handle_ : nullptr;
  if (call_.kind == Kind::barrier)
    return blocks ? dabke_barrier(&options_) : dabke_barrier_async(&options_, handle);
  Tensor& t = *tensors_.front();
  const char* const name = call_.tensors[t.index].name.c_str();
  const DLTensor* const output = t.has_output ? &t.output : nullptr;
  switch (call_.kind) {
    case Kind::allreduce:
      return blocks ? dabke_allreduce(name, &t.input, output, &options_)
                    : dabke_allreduce_async(name, &t.input, output, &options_, handle);
    case Kind::message:
      if (here_.rank == call_.root) {
        return blocks ? dabke_send(name, &t.input, call_.to, &options_)
                      : dabke_send_async(name, &t.input, call_.to, &options_, handle);
      }
      return blocks ? dabke_recv(name, &t.input, call_.is_from_any ? DABKE_ANY_RANK : call_.root, &options_)
                    : dabke_recv_async(name, &t.input, call_.is_from_any ? DABKE_ANY_RANK : call_.root,
                                       &options_, handle);
    case Kind::broadcast:
      return blocks ? dabke_broadcast(name, &t.input, output, &options_)
                    : dabke_broadcast_async(name, &t.input, output, &options_, handle);
    case Kind::reducescatter:
      return blocks ? dabke_reducescatter(name, &t.input, output, &options_)
                    : dabke_reducescatter_async(name, &t.input, output, &options_, handle);
    case Kind::allgather:
      if (output != nullptr) {
        return blocks ? dabke_allgather_into(name, &t.input, output, &options_)
                      : dabke_allgather_into_async(name, &t.input, output, &options_, handle);
      }
      return blocks ? dabke_allgather(name, &t.input, &options_, handle)
                    : dabke_allgather_async(name, &t.input, &options_, handle);
    default:
      if (output != nullptr) {
        return blocks ? dabke_alltoall_into(name, &t.input, output, &options_)
                      : dabke_alltoall_into_async(name, &t.input, output, &options_, handle);
      }
      return blocks ? dabke_alltoall(name, &t.input, &options_, handle)
                    : dabke_alltoall_async(name, &t.input, &options_, handle);
  }
}

dabke_status Part::start_grouped(bool blocks) {
  dabke_handle** const handle = wants_handle_ ? &handle_ : nullptr;
  std::vector<const char*> names;
  std::vector<const DLTensor*> inputs, outputs;
  bool has_any = false;
  for (const auto& tensor : tensors_) {
    names.push_back(call_.tensors[tensor->index].name.c_str());
    inputs.push_back(&tensor->input);
    outputs.push_back(tensor->has_output ? &tensor->output : nullptr);
    has_any = has_any || tensor->has_output;
  }
  const DLTensor* const* const out = has_any ? outputs.data() : nullptr;
  const std::size_t n = names.size();
  switch (call_.kind) {
    case Kind::allreduce:
      return blocks ? dabke_grouped_allreduce(names.data(), inputs.data(), out, n, &options_)
                    : dabke_grouped_allreduce_async(names.data(), inputs.data(), out, n, &options_, handle);
    case Kind::reducescatter:
      return blocks
                 ? dabke_grouped_reducescatter(names.data(), inputs.data(), out, n, &options_)
                 : dabke_grouped_reducescatter_async(names.data(), inputs.data(), out, n, &options_, handle);
    default:
      return blocks ? dabke_grouped_allgather(names.data(), inputs.data(), n, &options_, handle)
                    : dabke_grouped_allgather_async(names.data(), inputs.data(), n, &options_, handle);
  }
}

void Part::glance(Random& random) {
  if (handle_ == nullptr || has_blocked_) return;
  if (random.chance(50)) {
    (void)dabke_poll(handle_);
  } else {
    (void)dabke_wait(handle_, kGlanceSeconds);
  }
}

/// Waits as a program does whose next kernel reads the result.
void Part::wait_on_stream() {
  const fake_cuda::Stream stream = stream_of(here_.rank, random_.below(4));
  const dabke_status status = dabke_wait_stream(handle_, stream.handle());
  if (status != DABKE_OK && status != wanted_status() && !is_excused(what(), status, dabke_last_error()))
    fail(std::string("let no stream wait: ") + dabke_status_name(status) + ": " + dabke_last_error());
  if (status != DABKE_OK) return;
  stream.synchronize();
  // If a call fails later, as in a campaign of faults, its outputs are unspecified.
  if (wanted_status() == DABKE_OK && !expects_faults()) check_outputs();
}

dabke_status Part::wait() {
  if (call_.is_on_device && handle_ != nullptr && !has_blocked_ && random_.chance(40)) wait_on_stream();
  if (has_blocked_) return blocked_status_;
  // an early free cancels nothing; the outputs need the handle
  if (handle_ != nullptr && random_.chance(10)) {
    dabke_handle_retain(handle_);
    dabke_handle_free(handle_);
  }
  if (handle_ != nullptr) {
    if (random_.chance(15)) {
      while (dabke_poll(handle_) == 0) (void)dabke_wait(handle_, kGlanceSeconds);
    }
    return dabke_wait(handle_, -1);
  }
  return wait_for_callback();
}

dabke_status Part::wait_for_callback() {
  std::unique_lock lock(called_->mutex);
  called_->changed.wait(lock, [&] { return called_->times > 0; });
  return called_->status;
}

dabke_status Part::wanted_status() const {
  switch (call_.ending) {
    case Ending::ok: return DABKE_OK;
    case Ending::mismatch: return DABKE_ERROR_MISMATCH;
    case Ending::misfit: return DABKE_ERROR_INVALID_ARGUMENT;
    case Ending::no_output: return oracle_.lacks_output() ? DABKE_ERROR_OUT_OF_MEMORY : DABKE_OK;
    case Ending::root_joined: return DABKE_ERROR_INVALID_ARGUMENT;
    case Ending::removed: return DABKE_ERROR_UNKNOWN_PROCESS_SET;
    case Ending::shut_down: return DABKE_ERROR_SHUT_DOWN;
  }
  return DABKE_ERROR_INTERNAL;
}

std::string Part::message() const {
  if (has_blocked_) return blocked_message_;
  return handle_ != nullptr ? dabke_handle_message(handle_) : "";
}

void Part::finish() {
  if (is_refused_) return;
  const dabke_status got = wait(), want = wanted_status();
  if (got != want && !is_excused(what(), got, message())) {
    fail(std::string("ended with ") + dabke_status_name(got) + " (" + message() + "), not " +
         dabke_status_name(want));
  }
  if (got != DABKE_OK && message().empty() && (has_blocked_ || handle_ != nullptr))
    fail("failed without a word");
  // After an early failure, inputs may still be written.
  if (producer_ && got != DABKE_OK) producer_->synchronize();
  check_fences();
  if (got == DABKE_OK && want == DABKE_OK) check_outputs();
  if (follower_) {
    (void)wait_for_callback();
    follower_->finish();
  }
  pending_.reset();
}

int Part::arrived_permille() const {
  return oracle_.arrived_permille(0, here_.rank, tensors_.front()->input_memory.data());
}

void Part::check_fences() const {
  for (const auto& tensor : tensors_) {
    if (!tensor->input_memory.is_whole()) fail("wrote beside its input");
    if (!tensor->output_memory.is_whole()) fail("wrote beside its output");
  }
  for (const Buffer& buffer : allocated_) {
    if (!buffer.is_whole()) fail("wrote beside what the output allocator gave");
  }
}

void Part::check_outputs() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) check_output(i);
  check_splits();
}

void Part::check_output(std::size_t index) {
  const Tensor& t = *tensors_[index];
  const std::byte* got = t.is_in_place ? t.input_memory.data() : t.output_memory.data();
  const bool is_in_handle = !t.is_in_place && !t.has_output;
  if (is_in_handle) {
    const DLTensor* output = nullptr;
    if (dabke_handle_output(handle_, index, &output) != DABKE_OK)
      fail(std::string("has no output: ") + dabke_last_error());
    const std::vector<std::int64_t> shape(output->shape, output->shape + output->ndim);
    if (shape != t.output_shape) {
      fail("output " + std::to_string(index) + " has " + std::to_string(shape.empty() ? 0 : shape[0]) +
           " rows, not " + std::to_string(t.output_shape[0]));
    }
    got = static_cast<const std::byte*>(output->data);
    if (!allocated_.empty() && elements_of(shape) != 0 && got != allocated_[index].data())
      fail("did not use what the output allocator gave");
  }
  const auto named = [&](const std::string& text) {
    return "tensor '" + printable(call_.tensors[t.index].name) + "': " + text;
  };
  if (const auto bad = oracle_.check(t.index, here_.rank, got); !bad.empty()) fail(named(bad));
  if (t.is_in_place) return;
  if (const auto bad = oracle_.check_input(t.index, here_.rank, t.input_memory.data()); !bad.empty())
    fail(named(bad));
}

void Part::check_splits() {
  if (call_.kind != Kind::alltoall || handle_ == nullptr) return;
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  if (dabke_handle_received_splits(handle_, &splits, &count) != DABKE_OK)
    fail(std::string("has no received splits: ") + dabke_last_error());
  if (std::vector(splits, splits + count) != oracle_.received_splits(here_.rank))
    fail("received other splits");
}

void Part::check_callback() const {
  if (called_ == nullptr) return;
  const std::lock_guard lock(called_->mutex);
  if (called_->times != (is_refused_ ? 0 : 1))
    fail("its callback was called " + std::to_string(called_->times) + " times");
  if (follower_) follower_->check_callback();
}

std::string Part::what() const {
  std::string name = printable(call_.key);
  if (call_.form == Form::members) name += ", member " + std::to_string(first_);
  return "call " + std::to_string(call_.id) + " '" + name + "' in process set {" +
         text_of(here_.ranks_of(call_.set)) + "}: " + call_.describe();
}

void Part::fail(const std::string& text) const { wrong(what() + ": " + text); }

}  // namespace storm
