#include "tests/fake_device/fake_device_backend.h"

#include <cstring>
#include <numeric>
#include <random>

#include <fmt/format.h>

namespace dabke::test {
namespace {

std::vector<std::int64_t> as_int64(std::span<const std::size_t> counts) {
  return {counts.begin(), counts.end()};
}

std::int64_t before(const std::vector<std::int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

/// A packed batch as a batch of one tensor, with the device's real addresses. Owns its counts.
struct PackedCall {
  Batch batch;
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> receive;
  const std::byte* input;
  std::byte* output;
  std::size_t input_bytes;
  std::size_t output_bytes;

  PackedCall(const Batch& of, const PackedBatch& packed)
      : batch(of), send(as_int64(packed.send_counts)), receive(as_int64(packed.receive_counts)) {
    const std::size_t width = size_of(packed.dtype);
    batch.prescale = 1;  // the packing has scaled already
    batch.trace = {};
    const auto own = static_cast<std::size_t>(of.process_set->rank);
    BatchEntry entry;
    input = packed.send != nullptr ? packed.send : packed.data;
    output = packed.data;
    entry.elements =
        static_cast<std::int64_t>(packed.send != nullptr ? packed.send_elements : packed.elements);
    if (of.kind == CollectiveKind::allgather) {
      input = packed.data + static_cast<std::size_t>(before(receive, of.process_set->rank)) * width;
      entry.elements = receive[own];
    }
    if (of.kind == CollectiveKind::reducescatter) receive = send;
    input_bytes = static_cast<std::size_t>(entry.elements) * width;
    output_bytes = packed.elements * width;
    batch.entries = {entry};
  }

  /// Runs the collective at the real addresses of the device's memory.
  Status run(FakeStream& stream, ThreadsHub& hub, std::uint64_t round, const Status& aborted) {
    BatchEntry& entry = batch.entries.front();
    DABKE_ASSIGN_OR_RETURN(entry.input, stream.real(input, input_bytes));
    DABKE_ASSIGN_OR_RETURN(entry.output, stream.real(output, output_bytes));
    entry.receive_counts = receive;
    entry.send_counts = send;
    return run_among_threads(batch, round, hub, aborted);
  }
};

}  // namespace

Status FakeDeviceBackend::make_id(const ProcessSetInfo& set, std::span<std::byte> id) {
  if (set.rank != 0) return {Code::internal, "only the first rank of a set makes its id"};
  std::random_device random;
  const Id made = (Id{random()} << 32 | random()) | 1;
  std::memcpy(id.data(), &made, sizeof made);
  return {};
}

void FakeDeviceBackend::take_id(const ProcessSetInfo& set, std::span<const std::byte> id) {
  std::memcpy(&communicators_[set.id].id, id.data(), sizeof(Id));
}

Status FakeDeviceBackend::prepare(const ProcessSetInfo& set, Device) {
  Communicator& made = communicators_[set.id];
  if (set.size() > 1 && made.id == 0) return {Code::internal, "a set was prepared without its id"};
  made.is_prepared = true;
  return {};
}

void FakeDeviceBackend::release(ProcessSetId set, Device) { communicators_.erase(set); }

void FakeDeviceBackend::run(const Batch& batch, Completion done) {
  const Status status = enqueue(batch);
  if (!status.is_ok() || random_() % 2 == 0) return done(status);
  later_ = done;
  polls_left_ = static_cast<int>(random_() % 4);
}

Status FakeDeviceBackend::poll() {
  if (later_.call != nullptr && polls_left_-- == 0) std::exchange(later_, {})(Status());
  const std::lock_guard lock(error_mutex_);
  return error_;
}

Status FakeDeviceBackend::enqueue(const Batch& batch) {
  Communicator& communicator = communicators_[batch.process_set->id];
  if (!communicator.is_prepared) return {Code::internal, "the process set was not prepared"};
  auto* const stream = static_cast<FakeStream*>(batch.stream);
  Packer& packer = packers_.try_emplace(stream, *stream).first->second;
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, packer.pack(batch));
  const std::uint64_t round = communicator.id ^ ++communicator.rounds << 8;
  std::optional<RunScope> activity;
  activity.emplace(batch, activity_of<"FAKE">(batch.kind), name());
  stream->enqueue([this, stream, round, call = std::make_shared<PackedCall>(batch, packed)]() -> Status {
    const Status status = call->run(*stream, *hub_, round, aborted_);
    if (status.is_ok()) return {};
    const std::lock_guard lock(error_mutex_);
    if (error_.is_ok()) error_ = status;
    return {};
  });
  activity.reset();
  return packer.unpack(batch, kernels::Scale());
}

void FakeDeviceBackend::abort(const Status& cause) { hub_->abort(aborted_, cause); }

}  // namespace dabke::test
