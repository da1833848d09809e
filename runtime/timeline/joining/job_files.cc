#include "runtime/timeline/joining/job_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/hmac.h"

namespace dabke::timeline {
namespace {

namespace fs = std::filesystem;

/// Returns the ranks from 0 to `size` that are not in `ranks`, such as "1, 5-7"; empty if there are none.
std::string absent_ranks(const std::vector<RankFile>& ranks, int size) {
  std::string text;
  Rank next = 0;
  const auto note_until = [&](Rank end) {
    if (next < end) text += fmt::format("{}{}", text.empty() ? "" : ", ", next);
    if (next < end - 1) text += fmt::format("-{}", end - 1);
    next = end + 1;
  };
  for (const RankFile& rank : ranks) note_until(rank.origin.rank);
  note_until(size);
  return text;
}

std::string whose(const RecordFile::Origin& origin) {
  return fmt::format("job {}, epoch {}, {} ranks", text_of(origin.job_id), origin.epoch, origin.size);
}

bool is_same_job(const RecordFile::Origin& a, const RecordFile::Origin& b) {
  return std::tie(a.job_id, a.epoch, a.size) == std::tie(b.job_id, b.epoch, b.size);
}

/// Returns the files `base`.rank<number>, sorted by number. A folder that cannot be listed counts as empty.
std::vector<std::string> record_files(const std::string& base) {
  std::map<Rank, std::string> found;
  const fs::path path(base);
  const std::string prefix = path.filename().string() + ".rank";
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  for (fs::directory_iterator each(folder, ignored), end; each != end; each.increment(ignored)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    Rank rank = 0;
    const char* const last = name.data() + name.size();
    const auto read = std::from_chars(name.data() + prefix.size(), last, rank);
    if (read.ec == std::errc() && read.ptr == last && rank >= 0)
      found[rank] = base + ".rank" + std::to_string(rank);
  }
  std::vector<std::string> paths;
  for (auto& [rank, one] : found) paths.push_back(std::move(one));
  return paths;
}

void note_record(RankFile& rank, const Record& record) {
  if (rank.records++ == 0) rank.first_ns = rank.last_ns = record.time_ns;
  rank.first_ns = std::min(rank.first_ns, record.time_ns);
  rank.last_ns = std::max(rank.last_ns, record.time_ns);
  if (record.what == Record::What::order) rank.sets.insert(record.process_set);
  if (record.what == Record::What::lost) rank.lost += record.bytes;
  if (record.what != Record::What::clock) return;
  rank.clock.push_back({record.time_ns, static_cast<std::int64_t>(record.bytes),
                        static_cast<std::int64_t>(record.batch), static_cast<Rank>(record.number)});
}

}  // namespace

Status report_progress(const OnProgress& on_progress, std::size_t records) {
  if (!on_progress || on_progress(records * sizeof(Record))) return {};
  return {Code::interrupted, "stopped before all records were read"};
}

std::string text_of(const JobId& job) { return to_hex(job); }

Result<JobFiles> JobFiles::find(const std::string& base, std::optional<JobId> job,
                                const OnProgress& on_progress) {
  struct Candidate {
    std::string path;
    RecordFile::Origin origin;
  };
  JobFiles files;
  std::vector<Candidate> candidates;
  for (const std::string& path : record_files(base)) {
    const auto file = RecordFile::open(path);
    if (!file) {
      files.notes_.push_back(file.status().message());
    } else {
      candidates.push_back({path, file->origin()});
    }
  }
  const auto is_of_job = [&](const Candidate& one) { return !job || one.origin.job_id == *job; };
  const Candidate* newest = nullptr;
  for (const Candidate& one : candidates) {
    if (is_of_job(one) && (newest == nullptr || one.origin.realtime_ns > newest->origin.realtime_ns))
      newest = &one;
  }
  if (newest == nullptr) {
    std::string why = fmt::format("found no records of {} in '{}.rank<n>'", job ? "this job" : "a job", base);
    for (const std::string& note : files.notes_) why += "; " + note;
    if (files.notes_.empty()) why += "; record with DABKE_TIMELINE=" + base;
    return Status(Code::invalid_argument, why);
  }
  for (const Candidate& one : candidates) {
    if (is_same_job(one.origin, newest->origin)) {
      DABKE_RETURN_IF_ERROR(files.look_through(one.path, on_progress));
    } else {
      files.notes_.push_back(fmt::format("'{}' is left out: it belongs to {}, but this is {}; remove it",
                                         one.path, whose(one.origin), whose(newest->origin)));
    }
  }
  files.finish();
  return files;
}

Result<JobFiles> JobFiles::open(const std::vector<std::string>& paths, const OnProgress& on_progress) {
  if (paths.empty()) return Status(Code::invalid_argument, "no record file is given");
  JobFiles files;
  for (const std::string& path : paths) DABKE_RETURN_IF_ERROR(files.look_through(path, on_progress));
  const RankFile first = files.ranks_.front();
  std::ranges::stable_sort(files.ranks_, {}, [](const RankFile& one) { return one.origin.rank; });
  for (std::size_t i = 0; i < files.ranks_.size(); ++i) {
    const RankFile& one = files.ranks_[i];
    if (!is_same_job(one.origin, first.origin)) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' belongs to {}, but '{}' to {}; give the files of one job", one.path,
                                whose(one.origin), first.path, whose(first.origin)));
    }
    if (i != 0 && files.ranks_[i - 1].origin.rank == one.origin.rank) {
      return Status(Code::invalid_argument, fmt::format("'{}' and '{}' both belong to rank {}; give only one",
                                                        files.ranks_[i - 1].path, one.path, one.origin.rank));
    }
  }
  files.finish();
  return files;
}

Status JobFiles::look_through(const std::string& path, const OnProgress& on_progress) {
  DABKE_ASSIGN_OR_RETURN(RecordFile file, RecordFile::open(path));
  RankFile rank{.path = path, .origin = file.origin()};
  rank.first_ns = rank.last_ns = rank.origin.monotonic_ns;
  std::vector<Record> block;
  while (true) {
    DABKE_ASSIGN_OR_RETURN(const bool is_more, file.next(block));
    if (!is_more) break;
    for (const Record& record : block) note_record(rank, record);
    bytes_ += block.size() * sizeof(Record);
    DABKE_RETURN_IF_ERROR(report_progress(on_progress, block.size()));
  }
  rank.missing = file.missing();
  if (file.end()) {
    rank.limit = file.end()->limit;
    rank.left_out = rank.limit == 0 ? 0 : file.end()->lost - std::min(file.end()->lost, rank.lost);
    rank.lost = file.end()->lost - rank.left_out;
  }
  ranks_.push_back(std::move(rank));
  return {};
}

void JobFiles::finish() {
  std::ranges::stable_sort(ranks_, {}, [](const RankFile& one) { return one.origin.rank; });
  std::vector<ClockFacts> facts;
  for (const RankFile& rank : ranks_) {
    facts.push_back({rank.origin, rank.clock});
    for (const ProcessSetId set : rank.sets) ++members_[set];
    if (!rank.missing.empty()) notes_.push_back(fmt::format("rank {}: {}", rank.origin.rank, rank.missing));
    if (rank.lost != 0)
      notes_.push_back(fmt::format("rank {}: {} records were lost, because the disk was too slow",
                                   rank.origin.rank, rank.lost));
    if (rank.limit != 0)
      notes_.push_back(
          fmt::format("rank {}: its file came near the limit of {} bytes (DABKE_TIMELINE_MAX_BYTES), so the "
                      "timeline of all ranks ends before the job",
                      rank.origin.rank, rank.limit));
    if (rank.left_out != 0)
      notes_.push_back(
          fmt::format("rank {}: {} records had no room in its file while the ranks stopped, so it ends "
                      "earlier than others; raise the limit",
                      rank.origin.rank, rank.left_out));
  }
  if (const std::string absent = absent_ranks(ranks_, size()); !absent.empty())
    notes_.push_back(fmt::format("of {} ranks, no records exist of: {}", size(), absent));
  clocks_ = align_clocks(facts);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::int64_t begin = clocks_[i].at(ranks_[i].first_ns);
    begin_ns_ = i == 0 ? begin : std::min(begin_ns_, begin);
    if (clocks_[i].source() == AlignedClock::Source::wall) {
      notes_.push_back(
          fmt::format("rank {}: its host's clock was never compared with that of rank {}; the hosts' times "
                      "of day are used, with an unknown error",
                      ranks_[i].origin.rank, ranks_.front().origin.rank));
    }
  }
}

std::size_t JobFiles::members(ProcessSetId set) const {
  const auto found = members_.find(set);
  return found == members_.end() ? 0 : found->second;
}

}  // namespace dabke::timeline
