// The form of the file with one rank's records. Everything is little-endian, as it is in memory.
//
//   file    a FilePreface, then blocks until the end
//   block   a BlockHead, then `bytes` of content, a multiple of 8
//     origin   the first block, once: an OriginHead, the host's name, the boot id,
//              zeros up to a multiple of 8
//     epoch    the second block in a file of version 2, once: the text of an EpochRoster
//              (epoch_roster.h), zeros up to a multiple of 8
//     names    `count` times a NameHead with its characters and zeros up to a multiple of 8;
//              each kind of name is numbered 1, 2, ...
//     records  `count` Records; an earlier block has all names that they refer to by number
//     end      the last block of a file that was closed: an EndCounts
//     failure  the last block of a file that could not be written any further: a WriteFailure;
//              missing if there was no room for it
// A file that is cut anywhere is valid up to its last whole block. A file without `end` was not closed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/world.h"
#include "runtime/timeline/epoch_roster.h"
#include "runtime/timeline/name_table.h"
#include "runtime/timeline/record.h"

namespace dabke::timeline {

inline constexpr std::array<char, 8> kRecordMagic = {'D', 'A', 'B', 'K', 'E', 'R', 'E', 'C'};
inline constexpr std::uint32_t kRecordVersion = 1;
/// The version of a file with an `epoch` block, which each rank of an elastic job writes. All else is equal.
inline constexpr std::uint32_t kElasticVersion = 2;
/// The length of the longest name, of any kind.
inline constexpr std::uint64_t kLongestName = std::uint64_t{1} << 24;

struct FilePreface {
  std::array<char, 8> magic = kRecordMagic;
  std::uint32_t version = kRecordVersion;
  std::uint32_t record_bytes = sizeof(Record);
};

enum class BlockKind : std::uint32_t { origin = 1, names, records, end, failure, epoch };

struct BlockHead {
  BlockKind kind = BlockKind::end;
  std::uint32_t count = 0;  // names or records in the block; 1 for other kinds
  std::uint64_t bytes = 0;  // bytes of content, without the head
  std::uint64_t check = 0;  // check_of() kind, count, bytes and content
};

/// The rank and the job that the records belong to.
struct TimelineOrigin {
  JobId job_id{};
  std::uint64_t epoch = 1;
  Rank rank = 0;
  int size = 1;
  std::string host;
  std::optional<EpochRoster> roster = {};  // of an elastic job
};

/// The end of the name of a rank's file, after the name of the timeline: ".rank3". In a later epoch of an
/// elastic job it is ".epoch2.rank3", so that the records of every epoch stay.
std::string suffix_of(const TimelineOrigin& origin);

struct OriginHead {
  std::int64_t monotonic_ns = 0;  // CLOCK_MONOTONIC when the file was opened
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
  // The limit of the file in bytes, if the limit has ended the timeline; else 0.
  std::uint64_t limit = 0;
};

struct WriteFailure {
  std::int64_t error = 0;  // an errno
};

/// Identifies a clock: ranks with equal identities share CLOCK_MONOTONIC.
struct ClockIdentity {
  std::string boot_id;               // of the kernel; empty if it cannot be read
  std::uint64_t time_namespace = 0;  // inode of the namespace; 0 if there is none
  bool operator==(const ClockIdentity&) const = default;
};
/// The identity of this process's clock.
ClockIdentity clock_identity();

/// A checksum that finds damage; it is not a signature. `bytes` must be a multiple of 8.
std::uint64_t check_of(const BlockHead& head, std::string_view content);

/// The tables of docs/reference/timeline-records.md that describe the form of a record.
std::string records_as_markdown();

}  // namespace dabke::timeline
