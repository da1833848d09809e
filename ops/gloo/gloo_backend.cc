#include "ops/gloo/gloo_backend.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/common/logging.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <sstream>

#include "ops/gloo/gloo_threads.h"
#include "runtime/backend/activity.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::ops {
namespace {

/// Calls a function that enters Gloo, and blocks SIGPIPE, which Gloo's sockets raise. Exceptions become a
/// Status with their text.
template <class Function>
Status inside_gloo(Function function) {
  return without_exceptions([&]() -> Status {
    try {
      const SigpipeBlocked blocked;
      return function();
    } catch (const gloo::Exception& error) {
      return Status(Code::transport, error.what());
    }
  });
}

/// True if the text contains the system's error for a connection whose other end does not answer. Gloo passes
/// such errors on.
bool is_about_silence(const std::string& text) {
  return std::ranges::any_of(std::array{ETIMEDOUT, EHOSTUNREACH, ENETUNREACH},
                             [&](int value) { return text.find(std::strerror(value)) != std::string::npos; });
}

/// Messages of different batches have different tags, so they never meet. `run` distinguishes the parts of
/// one batch.
std::uint32_t tag_of(const BatchMark& mark, std::uint32_t run) {
  std::uint64_t bits = mark.order * 0x9e3779b97f4a7c15u ^ mark.contents;
  bits = (bits ^ bits >> 31) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::uint32_t>(bits >> 40) << 8 | (run & 0xff);
}

}  // namespace

GlooBackend::GlooBackend(const BackendContext& context)
    : context_(context),
      watchdog_(
          context.config.peer_timeout > 0
              ? links::look_interval(seconds_to_duration(context.config.peer_timeout))
              : Duration::zero(),
          [this](GlooContext& running) { return find_loss(running); },
          [this](const Watchdog::Note& note) {
            return without_exceptions([&] { return compare_notes(note); });
          }) {}

GlooBackend::~GlooBackend() {
  if (device_) device_->resume();  // closing connections waits for the device's thread
}

bool GlooBackend::can_run(const CallSpec& call, const Extent&) const {
  return runs_on_host(call, kCollectivesOfHostBackends);
}

/// The fixed cost of a batch grows with the number of peers, even if the batch is small.
BatchSizes GlooBackend::batch_sizes() const {
  const auto peers = static_cast<std::uint32_t>(std::clamp(context_.world.size - 1, 1, 4));
  return {.alone = peers << 20};
}

Status GlooBackend::prepare(const ProcessSetInfo& set, Device) {
  const std::lock_guard lock(mutex_);
  DABKE_RETURN_IF_ERROR(watchdog_.aborted());
  DABKE_RETURN_IF_ERROR(open_device());
  open_set(set);
  return {};
}

Watchdog::Note GlooBackend::note_of(const Batch& batch, const Set& set) {
  const ProcessSetInfo& info = *batch.process_set;
  const auto own = static_cast<std::size_t>(info.rank);
  return {mark_of(batch),
          set.runs,
          info.id,
          set.members,
          set.incarnation,
          info.ranks[own],
          info.ranks[(own + 1) % info.ranks.size()]};
}

Status GlooBackend::compare_notes(const Watchdog::Note& own) const {
  constexpr auto kPatience = std::chrono::milliseconds(50);  // aborts wait meanwhile
  const auto key_of = [&](Rank rank) {
    return fmt::format("gloo/late/{}-{:x}-{}/{}", own.set, own.members, own.incarnation, rank);
  };
  store::Store& store = *context_.store;
  const std::string note = fmt::format("{} {} {}", own.run, own.mark.order, own.mark.contents);
  // Without the store there is no answer. The stall report names the late ranks anyway.
  if (!store.set(key_of(own.own), note).is_ok()) return {};
  const auto text = store.get(key_of(own.neighbour), Clock::now() + kPatience);
  if (!text) return {};
  std::uint64_t run = 0;
  BatchMark theirs;
  std::istringstream words(*text);
  words >> run >> theirs.order >> theirs.contents;
  // The note is from another run, or the neighbour is in the same batch. In neither case do the batches
  // differ.
  if (run != own.run || theirs == own.mark) return {};
  return batches_differ(fmt::format("rank {}", own.neighbour), theirs, own.mark);
}

void GlooBackend::release(ProcessSetId set, Device) {
  const std::lock_guard lock(mutex_);
  if (device_) device_->resume();  // closing connections waits for the device's thread
  sets_.erase(set);
}

void GlooBackend::idle() {
  const std::lock_guard lock(mutex_);
  packer_.drop();
  scratch_.drop();
  watchdog_.rest();
  const bool is_used =
      std::ranges::any_of(sets_, [](const auto& row) { return !row.second.contexts.empty(); });
  if (!is_used) {
    device_.reset();
  } else if (device_) {
    device_->park();
  }
}

GlooBackend::Set& GlooBackend::open_set(const ProcessSetInfo& set) {
  const auto [row, is_new] = sets_.try_emplace(set.id);
  if (is_new) {
    row->second.members = hash_of(set.ranks);
    row->second.incarnation = ++incarnations_[{set.id, row->second.members}];
  }
  return row->second;
}

Status GlooBackend::open_device() {
  if (device_) {
    device_->resume();
    return Status::ok();
  }
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::listening_address(context_.world));
  DABKE_ASSIGN_OR_RETURN(device_, GlooDevice::open(address, context_.fork_guard));
  return Status::ok();
}

Result<GlooContext*> GlooBackend::open_context(const Batch& batch, Set& set, GlooAlgorithm algorithm) {
  const ProcessSetInfo& info = *batch.process_set;
  if (const auto row = set.contexts.find(algorithm); row != set.contexts.end()) return row->second.get();
  const std::string key =
      fmt::format("gloo/{}-{:x}-{}/{}", info.id, set.members, set.incarnation, name_of(algorithm));
  const TimePoint deadline = deadline_after(context_.config.start_timeout);
  auto context = std::make_unique<GlooContext>(*device_, info, context_.fork_guard,
                                               seconds_to_duration(context_.config.peer_timeout));
  DABKE_RETURN_IF_ERROR(watchdog_.begin(context.get(), kNever, Status::ok(), note_of(batch, set)));
  const Status connected = inside_gloo(
      [&] { return context->connect(*context_.store, key, deadline, [this] { return watchdog_.ended(); }); });
  const Status ended = watchdog_.end();
  DABKE_RETURN_IF_ERROR(ended);
  if (!connected.is_ok()) {
    const int peer = context->connecting_to();
    const std::string& why = connected.message();
    const bool in_vain = peer >= 0 && (why.find("timeout") != std::string::npos || is_about_silence(why));
    return Status(
        in_vain ? Code::timeout : connected.code(),
        fmt::format("connecting to {} (limit {} s, DABKE_START_TIMEOUT_SECONDS): {}",
                    peer < 0 ? "the other ranks" : name_of_peer(peer), context_.config.start_timeout, why));
  }
  return set.contexts.emplace(algorithm, std::move(context)).first->second.get();
}

/// Returns a name such as "rank 3 on b" for a rank of the set that runs.
std::string GlooBackend::name_of_peer(int set_rank) const {
  return context_.world.name_of(running_[static_cast<std::size_t>(set_rank)]);
}

/// Called on the watchdog's thread, during a run.
Status GlooBackend::find_loss(GlooContext& context) const {
  const auto lost = context.lost_peer();
  if (!lost) return {};
  const std::string peer = name_of_peer(lost->set_rank);
  return lost->in_silence ? links::lost_in_silence(peer, context_.config.peer_timeout)
                          : links::connection_broke(peer, "closed in the middle of a message");
}

/// Adds the peers' names to the error of a failed run. Gloo's own text contains an address at most.
Status GlooBackend::name_broken(GlooContext& context, const Status& status) const {
  const std::vector<int> set_ranks = context.broken_peers(status.message());
  if (set_ranks.empty() || status.code() != Code::transport) return status;
  if (is_about_silence(status.message()))
    return links::lost_in_silence(name_of_peer(set_ranks.front()), context_.config.peer_timeout);
  std::string names;
  for (const int set_rank : set_ranks) names += (names.empty() ? "" : " and ") + name_of_peer(set_rank);
  return links::connection_broke(names, status.message());
}

Status GlooBackend::run_batch(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  Set& set = open_set(*batch.process_set);
  if (set.is_over) return {Code::transport, "the set's connections were closed when an earlier run failed"};
  DABKE_RETURN_IF_ERROR(set.ended);
  ++set.runs;
  Status status = without_exceptions([&]() -> Status {
    kernels::Scale unscaled;
    DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, packer_.pack(batch));
    DABKE_RETURN_IF_ERROR(run_packed(batch, packed, set, unscaled));
    return packer_.unpack(batch, unscaled);
  });
  if (status.is_ok()) return status;
  // The other ranks may wait for data that this one will never send. Closing the connections ends their
  // waits.
  set.contexts.clear();
  set.is_over = true;
  return status;
}

/// Sets `unscaled` to the scale that the caller still has to apply to the result.
Status GlooBackend::run_packed(const Batch& batch, const PackedBatch& packed, Set& set,
                               kernels::Scale& unscaled) {
  if (is_empty(batch)) return Status::ok();
  DABKE_RETURN_IF_ERROR(open_device());
  const ProcessSetInfo& info = *batch.process_set;
  const GlooAlgorithm algorithm = choose_algorithm(batch.kind, packed.elements * size_of(batch.dtype),
                                                   info.size(), needs_wide_sums(batch));
  if (!scales(algorithm)) unscaled = batch.result_scale();
  running_ = info.ranks;
  DABKE_ASSIGN_OR_RETURN(GlooContext* const context, open_context(batch, set, algorithm));

  const double limit = context_.config.gloo_timeout;
  const TimePoint deadline = std::min(batch.deadline, limit > 0 ? deadline_after(limit) : kNever);
  Status on_deadline;
  if (deadline != kNever) {
    const double seconds = std::chrono::duration<double>(deadline - Clock::now()).count();
    on_deadline = Status(Code::timeout, fmt::format("not finished within its limit of {:.3g} s; a rank is "
                                                    "late, stopped or gone (see DABKE_GLOO_TIMEOUT_SECONDS)",
                                                    seconds));
  }
  const RunScope activity = show_activity<"GLOO">(batch, name_of(algorithm));
  context->begin_run();
  DABKE_RETURN_IF_ERROR(watchdog_.begin(context, deadline, std::move(on_deadline), note_of(batch, set)));
  const Status status = inside_gloo([&] { return run_algorithm(batch, packed, algorithm, *context); });
  const Status ended = watchdog_.end();
  if (ended.is_ok()) return status.is_ok() ? status : name_broken(*context, status);
  if (!status.is_ok()) return ended;
  // The run finished just before the watchdog ended it. The result is valid; only the connections are closed.
  set.ended = {ended.code(), fmt::format("the set's connections were closed after order {}: {}", batch.order,
                                         ended.message())};
  return status;
}

Status GlooBackend::run_algorithm(const Batch& batch, const PackedBatch& packed, GlooAlgorithm algorithm,
                                  GlooContext& context) {
  const GlooRun run{context.gloo(),       tag_of(mark_of(batch), context.next_tag()),
                    batch.dtype,          batch.op,
                    batch.result_scale(), needs_wide_sums(batch)};
  switch (batch.kind) {
    case CollectiveKind::allreduce:
      return gloo_allreduce(run, algorithm, packed.data, packed.elements, scratch_);
    case CollectiveKind::allgather: gloo_allgather(run, packed.data, packed.receive_counts); break;
    case CollectiveKind::broadcast: gloo_broadcast(run, packed.data, packed.elements, batch.root); break;
    case CollectiveKind::alltoall:
      gloo_alltoall(run, packed.send, packed.send_counts, packed.data, packed.receive_counts);
      break;
    case CollectiveKind::reducescatter:
      return gloo_reducescatter(run, packed.send, packed.send_counts, packed.data, scratch_);
    case CollectiveKind::barrier: gloo_barrier(run); break;
    default: return Status(Code::unsupported, fmt::format("gloo cannot run {}", name_of(batch.kind)));
  }
  return Status::ok();
}

Result<std::unique_ptr<Backend>> open_gloo_backend(const BackendContext& context) {
  return std::unique_ptr<Backend>(std::make_unique<GlooBackend>(context));
}

}  // namespace dabke::ops
