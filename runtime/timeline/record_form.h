// The file of one rank's records, as it is written and read. Everything is little-endian, as it lies in memory.
//
//   file    a FilePreface, then blocks until the end
//   block   a BlockHead, then `bytes` of content, a multiple of 8
//     origin   first, and once: an OriginHead, the host's name, the boot id, zeros up to a multiple of 8
//     names    `count` times a NameHead and its characters, zeros up to a multiple of 8; each kind is numbered 1, 2, ...
//     records  `count` Records; all that they mention by number was in a block of names before
//     end      last, of a file that was closed: an EndCounts
//     failure  last, of a file that could not be written any further, where there was room for it: a WriteFailure
// A file that was cut anywhere is whole up to its last whole block; one without `end` was not closed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/world.h"
#include "runtime/timeline/name_table.h"
#include "runtime/timeline/record.h"

namespace dabke::timeline {

inline constexpr std::array<char, 8> kRecordMagic = {'D', 'A', 'B', 'K', 'E', 'R', 'E', 'C'};
inline constexpr std::uint32_t kRecordVersion = 1;
/// The longest name, of whatever kind.
inline constexpr std::uint64_t kLongestName = std::uint64_t{1} << 24;

struct FilePreface {
  std::array<char, 8> magic = kRecordMagic;
  std::uint32_t version = kRecordVersion;
  std::uint32_t record_bytes = sizeof(Record);
};

enum class BlockKind : std::uint32_t { origin = 1, names, records, end, failure };

struct BlockHead {
  BlockKind kind = BlockKind::end;
  std::uint32_t count = 0;  // of what is in it
  std::uint64_t bytes = 0;  // behind the head
  std::uint64_t check = 0;  // check_of() the content, beginning with kind, count and bytes
};

/// Whose records they are.
struct TimelineOrigin {
  JobId job_id{};
  std::uint64_t epoch = 1;
  Rank rank = 0;
  int size = 1;
  std::string host;
};

struct OriginHead {
  std::int64_t monotonic_ns = 0;  // CLOCK_MONOTONIC as the file was opened
  std::int64_t realtime_ns = 0;   // CLOCK_REALTIME at the same moment
  std::uint64_t epoch = 0;
  JobId job_id{};
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t host_bytes = 0;
  std::uint32_t boot_bytes = 0;
  std::uint64_t time_namespace = 0;
};

struct NameHead {
  std::uint32_t kind = 0;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
};

struct EndCounts {
  std::uint64_t records = 0;
  std::uint64_t lost = 0;
  std::uint64_t limit =
      0;  // the bytes that the file was not to exceed, where that has ended the timeline; else 0
};

struct WriteFailure {
  std::int64_t error = 0;  // an errno
};

/// Whose clock it is: ranks where all of it is equal share CLOCK_MONOTONIC.
struct ClockIdentity {
  std::string boot_id;               // of the kernel; empty where it cannot be read
  std::uint64_t time_namespace = 0;  // its inode; 0 where there is none
  bool operator==(const ClockIdentity&) const = default;
};
/// That of this process.
ClockIdentity clock_identity();

/// Finds what has been damaged; no secret. `bytes` is a multiple of 8.
std::uint64_t check_of(const BlockHead& head, std::string_view content);

/// The tables of docs/timeline.md that tell the form of a record.
std::string records_as_markdown();

}  // namespace dabke::timeline
