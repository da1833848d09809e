#include "runtime/timeline/record_form.h"

#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

static_assert(std::endian::native == std::endian::little, "a record lies in memory as it does in the file");
static_assert(sizeof(FilePreface) == 16 && sizeof(BlockHead) == 24 && sizeof(OriginHead) == 64 &&
              sizeof(NameHead) == 16 && sizeof(EndCounts) == 24);

struct Field {
  std::size_t offset;
  std::size_t bytes;
  std::string_view name;
  std::string_view meaning;
};

constexpr Field kFields[] = {
#define FIELD(name, meaning) \
  { offsetof(Record, name), sizeof(Record::name), #name, meaning }
    FIELD(time_ns, "the time, in nanoseconds of the host's CLOCK_MONOTONIC"),
    FIELD(order,
          "the number of the tensor's order in the job's one sequence; for a batch, the order of its first "
          "tensor"),
    FIELD(batch,
          "the batch: the number of its first tensor's order; if a group is cut into batches, `number` "
          "distinguishes them"),
    FIELD(bytes, "the bytes of this rank's tensor, or of all tensors of the batch"),
    FIELD(name, "the number of a name; 0: none"),
    FIELD(thread, "the number of the thread that wrote the record; 0: not known"),
    FIELD(process_set, "the id of the process set, signed"),
    FIELD(number, "for a batch: the position of its first tensor within the order, from 0 on"),
    FIELD(what, "the kind of the record, see below"),
    FIELD(kind, "the collective, numbered as in `runtime/base/kinds.h`"),
    FIELD(dtype, "the dtype, numbered as in `runtime/base/dtype.h`"),
    FIELD(flags, "1: an end; 2: the first rank that is ready; 4: the last rank"),
    FIELD(backend, "the number of the backend among the texts; 0: none"),
    FIELD(algorithm, "the number of the algorithm among the texts; 0: none"),
#undef FIELD
};

}  // namespace

std::string suffix_of(const TimelineOrigin& origin) {
  const bool is_later = origin.roster && origin.epoch > 1;
  return fmt::format("{}.rank{}", is_later ? fmt::format(".epoch{}", origin.epoch) : "", origin.rank);
}

ClockIdentity clock_identity() {
  ClockIdentity identity;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, identity.boot_id);
  struct stat info {};
  if (::stat("/proc/self/ns/time", &info) == 0) identity.time_namespace = info.st_ino;
  return identity;
}

std::uint64_t check_of(const BlockHead& head, std::string_view content) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t check = kPrime;
  const auto add = [&](std::uint64_t word) { check = std::rotl((check ^ word) * kPrime, 29); };
  add(static_cast<std::uint64_t>(head.kind) << 32 | head.count);
  add(head.bytes);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= content.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, content.data() + at, sizeof word);
    add(word);
  }
  return check;
}

std::string records_as_markdown() {
  std::string page = "| offset | bytes | field | meaning |\n| --- | --- | --- | --- |\n";
  for (const Field& field : kFields)
    page += fmt::format("| {} | {} | `{}` | {} |\n", field.offset, field.bytes, field.name, field.meaning);
  page += "\n| `what` | | when | fields |\n| --- | --- | --- | --- |\n";
#define X(id, value, when, fields) page += fmt::format("| {} | `{}` | {} | {} |\n", value, #id, when, fields);
  DABKE_RECORDS(X)
#undef X
  page += "\n| names | | at most | what |\n| --- | --- | --- | --- |\n";
#define X(id, value, most, further, meaning) \
  page += fmt::format("| {} | {} | {} | {} |\n", value, #id, std::size_t{most}, meaning);
  DABKE_NAME_KINDS(X)
#undef X
  return page;
}

}  // namespace dabke::timeline
