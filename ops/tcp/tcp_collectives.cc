#include "ops/tcp/tcp_collectives.h"

#include <bit>

#include <fmt/format.h>

#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// The bytes that must have arrived before they are reduced, while the rest is on its way. A multiple of
/// every dtype's element size.
constexpr std::size_t kPieceBytes = std::size_t{32} << 10;
/// The most bytes of one message, which keeps its scratch memory small.
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20;

class TcpRun {
 public:
  TcpRun(TcpMesh& mesh, const Batch& batch, const PackedBatch& packed, FusionBuffer& scratch)
      : mesh_(mesh),
        batch_(batch),
        packed_(packed),
        scratch_(scratch),
        own_(batch.process_set->rank),
        size_(batch.process_set->size()),
        result_(size_ == 2 ? batch.result_scale() : kernels::Scale()) {}

  Status allreduce();
  Status broadcast();
  Status allgather();
  Status barrier();

 private:
  Bytes data() const { return {packed_.data, packed_.elements * size_of(packed_.dtype)}; }
  Status combine_with(int partner, bool sends, std::byte* theirs);
  Status combine_some(int partner, bool sends, Bytes mine, std::byte* theirs);
  Status send(int set_rank, ConstBytes bytes);
  Status receive(int set_rank, Bytes bytes);

  TcpMesh& mesh_;
  const Batch& batch_;
  const PackedBatch& packed_;
  FusionBuffer& scratch_;
  const int own_;
  const int size_;
  const kernels::Scale result_;  // applied if there are two ranks, whose first sum is the final one
};

/// Calls `use` for one stretch after the other; each stretch is one message.
template <class Use>
Status each_stretch(std::size_t bytes, Use use) {
  for (std::size_t at = 0; at < bytes; at += kMostAtOnce)
    DABKE_RETURN_IF_ERROR(use(at, std::min(kMostAtOnce, bytes - at)));
  return {};
}

Status TcpRun::send(int set_rank, ConstBytes bytes) {
  return each_stretch(bytes.size(), [&](std::size_t at, std::size_t count) {
    return mesh_.transfer(TcpMessage(set_rank, bytes.subspan(at, count)), TcpMessage());
  });
}

Status TcpRun::receive(int set_rank, Bytes bytes) {
  return each_stretch(bytes.size(), [&](std::size_t at, std::size_t count) {
    return mesh_.transfer(TcpMessage(), TcpMessage(set_rank, bytes.subspan(at, count)));
  });
}

Status TcpRun::allreduce() {
  const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(size_)));
  if (own_ >= doubling) {
    DABKE_RETURN_IF_ERROR(send(own_ - doubling, data()));
    return receive(own_ - doubling, data());
  }
  DABKE_ASSIGN_OR_RETURN(std::byte* const theirs, scratch_.reserve(std::min(data().size(), kMostAtOnce)));
  const bool has_extra = own_ + doubling < size_;
  if (has_extra) DABKE_RETURN_IF_ERROR(combine_with(own_ + doubling, false, theirs));
  for (int bit = 1; bit < doubling; bit *= 2) DABKE_RETURN_IF_ERROR(combine_with(own_ ^ bit, true, theirs));
  return has_extra ? send(own_ + doubling, data()) : Status();
}

Status TcpRun::combine_with(int partner, bool sends, std::byte* theirs) {
  return each_stretch(data().size(), [&](std::size_t at, std::size_t count) {
    return combine_some(partner, sends, data().subspan(at, count), theirs);
  });
}

/// Receives into `theirs`, and reduces it into `mine` as it arrives. Only the part of `mine` that has been
/// sent is changed.
Status TcpRun::combine_some(int partner, bool sends, Bytes mine, std::byte* theirs) {
  const std::size_t total = mine.size();
  TcpMessage out = sends ? TcpMessage(partner, mine) : TcpMessage();
  TcpMessage in(partner, Bytes(theirs, total));
  std::size_t reduced = 0;
  return mesh_.transfer(out, in, [&](std::size_t sent, std::size_t received) {
    std::size_t ready = sends ? std::min(sent, received) : received;
    if (ready < total) ready = ready / kPieceBytes * kPieceBytes;
    if (ready == reduced) return;
    std::byte* const into = mine.data() + reduced;
    const std::byte* lower = into;
    const std::byte* higher = theirs + reduced;
    if (partner < own_) std::swap(lower, higher);
    void* const output = into;
    const void* const terms[] = {lower, higher};
    kernels::reduce_many(packed_.dtype, batch_.op, {&output, 1}, terms,
                         (ready - reduced) / size_of(packed_.dtype), result_);
    reduced = ready;
  });
}

Status TcpRun::broadcast() {
  // Ranks are counted from the root. Rank `at` receives from the rank whose number is `at` without its lowest
  // bit.
  const int at = (own_ + size_ - batch_.root) % size_;
  const auto set_rank = [&](int counted) { return (counted + batch_.root) % size_; };
  int bit = 1;
  while (bit < size_ && (at & bit) == 0) bit *= 2;
  if (at != 0) DABKE_RETURN_IF_ERROR(receive(set_rank(at - bit), data()));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (at + bit < size_) DABKE_RETURN_IF_ERROR(send(set_rank(at + bit), data()));
  }
  return {};
}

Status TcpRun::allgather() {
  const std::size_t width = size_of(packed_.dtype);
  std::vector<std::size_t> starts{0};
  for (const std::size_t count : packed_.receive_counts) starts.push_back(starts.back() + count * width);
  // Returns the blocks of `count` ranks from `first` on, which may wrap around.
  const auto blocks = [&](int first, int count) {
    first %= size_;
    const auto stretch = [&](int begin, int end) {
      const std::size_t from = starts[static_cast<std::size_t>(begin)];
      return Bytes(packed_.data + from, starts[static_cast<std::size_t>(end)] - from);
    };
    if (first + count <= size_) return std::pair(stretch(first, first + count), Bytes());
    return std::pair(stretch(first, size_), stretch(0, first + count - size_));
  };
  for (int have = 1; have < size_; have *= 2) {
    const int more = std::min(have, size_ - have);
    const auto [mine, mine_too] = blocks(own_, more);
    const auto [next, next_too] = blocks(own_ + have, more);
    DABKE_RETURN_IF_ERROR(mesh_.transfer(TcpMessage((own_ + size_ - have) % size_, mine, mine_too),
                                         TcpMessage((own_ + have) % size_, next, next_too)));
  }
  return {};
}

Status TcpRun::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    DABKE_RETURN_IF_ERROR(mesh_.transfer(TcpMessage((own_ + distance) % size_, Bytes()),
                                         TcpMessage((own_ + size_ - distance) % size_, Bytes())));
  }
  return {};
}

}  // namespace

Status tcp_run(TcpMesh& mesh, const Batch& batch, const PackedBatch& packed, FusionBuffer& scratch) {
  TcpRun run(mesh, batch, packed, scratch);
  switch (batch.kind) {
    case CollectiveKind::allreduce: return run.allreduce();
    case CollectiveKind::broadcast: return run.broadcast();
    case CollectiveKind::allgather: return run.allgather();
    case CollectiveKind::barrier: return run.barrier();
    default: return {Code::unsupported, fmt::format("tcp cannot run {}", name_of(batch.kind))};
  }
}

}  // namespace dabke::ops
