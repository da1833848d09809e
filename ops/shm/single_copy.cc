#include "ops/shm/single_copy.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/base/hmac.h"

namespace dabke::ops {
namespace {

// An abort is noticed between two calls.
constexpr std::size_t kBytesOfCall = std::size_t{1} << 20;
constexpr std::size_t kPiecesOfCall = 64;

/// Returns a random number, or 0 if the system has none: then no rank can read from this one.
std::uint64_t random_number() {
  std::uint64_t number = 0;
  const Status status = random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return status.is_ok() ? number : 0;
}

/// Reads all bytes from another process, or sets errno.
bool read_from(pid_t pid, std::span<const iovec> to, std::span<const iovec> from) {
  std::size_t wanted = 0;
  for (const iovec& piece : to) wanted += piece.iov_len;
  const ssize_t got = ::process_vm_readv(pid, to.data(), to.size(), from.data(), from.size(), 0);
  if (got >= 0 && static_cast<std::size_t>(got) != wanted) errno = EFAULT;
  return got >= 0 && static_cast<std::size_t>(got) == wanted;
}

void* as_address(std::uint64_t number) { return reinterpret_cast<void*>(number); }

}  // namespace

SingleCopy::SingleCopy(ShmDomain& domain, ShmSteps& steps, RemoteAccessGuard& guard)
    : domain_(domain), steps_(steps), guard_(guard), number_(random_number()) {}

std::size_t SingleCopy::table_bytes(const Batch& batch) {
  return sizeof(Source) + batch.entries.size() * sizeof(std::uint64_t);
}

bool SingleCopy::can_try(const Batch& batch, std::size_t size_bytes) const {
  return batch.kind == CollectiveKind::broadcast && size_bytes >= kLeastBytes &&
         table_bytes(batch) <= domain_.stage_bytes() && !refused_.contains(batch.process_set->id);
}

Result<bool> SingleCopy::broadcast(const Batch& batch, const std::vector<std::size_t>& members) {
  DABKE_ASSIGN_OR_RETURN(std::byte* const table, steps_.free_stage(table_bytes(batch)));
  const bool is_root = batch.process_set->rank == batch.root;
  if (is_root) write_table(batch, table);
  DABKE_RETURN_IF_ERROR(steps_.exchange());
  Status status;
  if (is_root) {
    const std::size_t element_bytes = size_of(batch.dtype);
    for (const BatchEntry& entry : batch.entries) {
      if (entry.elements != 0 && entry.output != entry.input)
        std::memcpy(entry.output, entry.input, to_size(entry.elements) * element_bytes);
    }
  } else {
    DABKE_ASSIGN_OR_RETURN(const RemoteAccessGuard::Visit visit, guard_.enter(members));
    status = read(batch, steps_.stage_of(to_size(batch.root)));
    if (steps_.is_aborted()) return steps_.aborted();
  }
  steps_.end_round();
  DABKE_ASSIGN_OR_RETURN(const bool could_all, steps_.all_agree(status.is_ok()));
  if (!could_all) refused_.insert(batch.process_set->id);
  steps_.publish();
  return could_all;
}

void SingleCopy::write_table(const Batch& batch, std::byte* table) {
  const Source source{::getpid(), reinterpret_cast<std::uint64_t>(&number_), number_};
  std::memcpy(table, &source, sizeof source);
  table += sizeof source;
  for (const BatchEntry& entry : batch.entries) {
    const auto address = reinterpret_cast<std::uint64_t>(entry.input);
    std::memcpy(table, &address, sizeof address);
    table += sizeof address;
  }
}

Status SingleCopy::read(const Batch& batch, const std::byte* table) const {
  Source source;
  std::memcpy(&source, table, sizeof source);
  table += sizeof source;
  const auto pid = static_cast<pid_t>(source.pid);
  const auto check_source = [&]() -> Status {
    std::uint64_t number = 0;
    const iovec to_number{&number, sizeof number}, from_number{as_address(source.address), sizeof number};
    if (source.number == 0 || !read_from(pid, {&to_number, 1}, {&from_number, 1}) || number != source.number)
      return {Code::unsupported, "cannot read the memory of the root"};
    return {};
  };
  DABKE_RETURN_IF_ERROR(check_source());

  std::vector<iovec> to, from;
  std::size_t gathered = 0;
  const auto read_gathered = [&]() -> Status {
    if (steps_.is_aborted()) return steps_.aborted();
    if (!to.empty() && !read_from(pid, to, from))
      return {Code::unsupported, "cannot read the memory of the root"};
    to.clear();
    from.clear();
    gathered = 0;
    return {};
  };
  for (const BatchEntry& entry : batch.entries) {
    std::uint64_t address = 0;
    std::memcpy(&address, table, sizeof address);
    table += sizeof address;
    const std::size_t bytes = to_size(entry.elements) * size_of(batch.dtype);
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t now = std::min(bytes - done, kBytesOfCall - gathered);
      to.push_back({static_cast<std::byte*>(entry.output) + done, now});
      from.push_back({as_address(address + done), now});
      done += now;
      gathered += now;
      if (gathered == kBytesOfCall || to.size() == kPiecesOfCall) DABKE_RETURN_IF_ERROR(read_gathered());
    }
  }
  DABKE_RETURN_IF_ERROR(read_gathered());
  // If the root has died meanwhile, its number may belong to another process by now.
  return check_source();
}

}  // namespace dabke::ops
