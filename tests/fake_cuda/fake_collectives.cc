#include "tests/fake_cuda/fake_collectives.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/base/half.h"

namespace dabke::test {
namespace {

template <class T>
T reduced(nccl::Op op, T a, T b) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    // Rounded at each step, as a ring of GPUs does.
    return T(reduced<float>(op, static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (op == nccl::kSum) return a + b;
    if (op == nccl::kProd) return a * b;
    return op == nccl::kMax ? std::fmax(a, b) : std::fmin(a, b);
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    if (op == nccl::kSum) return static_cast<T>(x + y);
    if (op == nccl::kProd) return static_cast<T>(x * y);
    return op == nccl::kMax ? std::max(a, b) : std::min(a, b);
  }
}

template <class T>
void reduce_as(nccl::Op op, char* into, const char* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a;
    T b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, other + i * sizeof(T), sizeof(T));
    a = reduced(op, a, b);
    std::memcpy(into + i * sizeof(T), &a, sizeof(T));
  }
}

void reduce(nccl::Type type, nccl::Op op, char* into, const char* other, std::size_t count) {
  switch (type) {
    case 0: return reduce_as<std::int8_t>(op, into, other, count);
    case 1: return reduce_as<std::uint8_t>(op, into, other, count);
    case 2: return reduce_as<std::int32_t>(op, into, other, count);
    case 3: return reduce_as<std::uint32_t>(op, into, other, count);
    case 4: return reduce_as<std::int64_t>(op, into, other, count);
    case 5: return reduce_as<std::uint64_t>(op, into, other, count);
    case 6: return reduce_as<f16>(op, into, other, count);
    case 7: return reduce_as<float>(op, into, other, count);
    case 8: return reduce_as<double>(op, into, other, count);
    case 9: return reduce_as<bf16>(op, into, other, count);
  }
}

}  // namespace

/// Every rank exchanges `op.count` elements with the others through their mailboxes, as its kind requires.
bool run_collective(Shared& comm, const Call& op, std::uint64_t call) {
  const auto* const from = static_cast<const char*>(op.from);
  auto* const to = static_cast<char*>(op.to);
  const std::size_t bytes = bytes_of(op);
  const bool is_root = op.root == comm.rank;
  std::vector<Transfer> transfers;
  std::vector<std::vector<char>> brought(static_cast<std::size_t>(comm.size));
  const bool reduces = op.kind == kAllReduce || op.kind == kReduceScatter || op.kind == kReduce;
  const std::size_t own = static_cast<std::size_t>(comm.rank) * bytes;
  for (int peer = 0; peer < comm.size; ++peer) {
    const std::size_t block = static_cast<std::size_t>(peer) * bytes;
    auto& theirs = brought[static_cast<std::size_t>(peer)];
    const char* const mine = op.kind == kReduceScatter ? from + block : from;
    if (peer == comm.rank) {
      if (reduces) theirs.assign(mine, mine + bytes);
      continue;
    }
    const bool sends = op.kind == kBroadcast ? is_root : op.kind == kReduce ? op.root == peer : true;
    const bool receives = op.kind == kBroadcast ? op.root == peer : op.kind == kReduce ? is_root : true;
    if (sends) transfers.push_back({peer, mine, nullptr, bytes});
    if (!receives) continue;
    if (reduces) theirs.resize(bytes);
    transfers.push_back({peer, nullptr,
                         reduces                 ? theirs.data()
                         : op.kind == kAllGather ? to + block
                                                 : to,
                         bytes});
  }
  if (!exchange(comm, call, transfers)) return false;
  if (reduces && (op.kind != kReduce || is_root)) {
    for (int rank = 1; rank < comm.size; ++rank)
      reduce(op.type, op.op, brought[0].data(), brought[static_cast<std::size_t>(rank)].data(), op.count);
    std::copy(brought[0].begin(), brought[0].end(), to);
  }
  if (op.kind == kAllGather && to + own != from) std::memcpy(to + own, from, bytes);
  if (op.kind == kBroadcast && is_root && to != from) std::memcpy(to, from, bytes);
  return true;
}

}  // namespace dabke::test
