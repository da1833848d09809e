#include "runtime/timeline/joining/job_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/text/counted.h"

namespace dabke::timeline {
namespace {

namespace fs = std::filesystem;

/// Returns the ranks from 0 to `size` that are not in `ranks`, such as "1, 5-7"; empty if there are none.
std::string absent_ranks(std::span<const RankFile> ranks, int size) {
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

/// Returns the epochs from 1 to the last that are not in `epochs`; empty if there are none.
std::string absent_epochs(const std::vector<JobEpoch>& epochs) {
  std::string text;
  std::uint64_t next = 1;
  for (const JobEpoch& epoch : epochs) {
    if (next < epoch.number) text += fmt::format("{}{}", text.empty() ? "" : ", ", next);
    if (next + 1 < epoch.number) text += fmt::format("-{}", epoch.number - 1);
    next = epoch.number + 1;
  }
  return text;
}

std::string whose(const RecordFile::Origin& origin) {
  return fmt::format("job {}, epoch {}, {} ranks", text_of(origin.job_id), origin.epoch, origin.size);
}

bool is_same_job(const RecordFile::Origin& a, const RecordFile::Origin& b) {
  if (a.roster && b.roster) return a.job_id == b.job_id;
  return a.roster.has_value() == b.roster.has_value() &&
         std::tie(a.job_id, a.epoch, a.size) == std::tie(b.job_id, b.epoch, b.size);
}

/// Removes the number at the end of `text` and the word before it, and returns the number.
std::optional<std::uint64_t> take_number_after(std::string_view word, std::string_view& text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const std::size_t digits = last == std::string_view::npos ? 0 : last + 1;
  if (!text.substr(0, digits).ends_with(word)) return std::nullopt;
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data() + digits, text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr == text.data() + digits) return std::nullopt;
  text = text.substr(0, digits - word.size());
  return number;
}

/// True also for a file that cannot be read.
bool may_be_of_later_epoch(const std::string& path) {
  const auto file = RecordFile::open(path);
  return !file || (file->origin().roster && file->origin().epoch > 1);
}

/// Files are sorted by epoch and rank.
std::pair<std::uint64_t, Rank> place_of(const RankFile& file) {
  return {file.origin.epoch, file.origin.rank};
}

void note_record(RankFile& rank, const Record& record) {
  if (rank.records++ == 0) rank.first_ns = rank.last_ns = record.time_ns;
  rank.first_ns = std::min(rank.first_ns, record.time_ns);
  rank.last_ns = std::max(rank.last_ns, record.time_ns);
  rank.moments.take(record);
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

std::vector<std::string> record_files(const std::string& base) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> found;  // by epoch and rank
  const fs::path path(base);
  const std::string name = path.filename().string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  for (fs::directory_iterator each(folder, ignored), end; each != end; each.increment(ignored)) {
    const std::string file = each->path().filename().string();
    if (!file.starts_with(name)) continue;
    std::string_view left = file;
    const auto rank = take_number_after(".rank", left);
    if (!rank || *rank > std::uint64_t{std::numeric_limits<Rank>::max()}) continue;
    const std::string given = base + file.substr(name.size());
    if (left == name) {
      found[{1, *rank}] = given;
    } else if (const auto epoch = take_number_after(".epoch", left);
               epoch && left == name && may_be_of_later_epoch(given)) {
      found[{*epoch, *rank}] = given;
    }
  }
  std::vector<std::string> paths;
  for (auto& [place, one] : found) paths.push_back(std::move(one));
  return paths;
}

std::string base_of_records(const std::string& path) {
  std::string_view base = path;
  if (!take_number_after(".rank", base)) return {};
  std::string_view shorter = base;
  if (take_number_after(".epoch", shorter) && may_be_of_later_epoch(path)) base = shorter;
  return std::string(base);
}

std::string extent_text(const JobFiles& files) {
  const std::string ranks = fmt::format("{} of {}", files.ranks().size(), counted(files.size(), "rank"));
  return files.is_elastic() ? fmt::format("{} of {}", ranks, counted(files.epochs().size(), "epoch")) : ranks;
}

std::string name_of_rank(const TimelineOrigin& origin) {
  return origin.roster ? fmt::format("rank {} in epoch {}", origin.rank, origin.epoch)
                       : fmt::format("rank {}", origin.rank);
}

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
  std::ranges::stable_sort(files.ranks_, {}, place_of);
  for (std::size_t i = 0; i < files.ranks_.size(); ++i) {
    const RankFile& one = files.ranks_[i];
    if (!is_same_job(one.origin, first.origin)) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' belongs to {}, but '{}' to {}; give the files of one job", one.path,
                                whose(one.origin), first.path, whose(first.origin)));
    }
    if (i != 0 && place_of(files.ranks_[i - 1]) == place_of(one)) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' and '{}' both belong to {}; give only one", files.ranks_[i - 1].path,
                                one.path, name_of_rank(one.origin)));
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
  std::ranges::stable_sort(ranks_, {}, place_of);
  take_epochs();
  std::vector<ClockFacts> facts;
  for (const RankFile& rank : ranks_) {
    facts.push_back({rank.origin, rank.clock});
    note_faults(rank);
  }
  for (const JobEpoch& epoch : epochs_) {
    const std::string absent = absent_ranks(std::span(ranks_).subspan(epoch.first, epoch.count), epoch.size);
    if (!absent.empty())
      notes_.push_back(fmt::format("{}of {} ranks, no records exist of: {}",
                                   is_elastic() ? fmt::format("epoch {}: ", epoch.number) : "", epoch.size,
                                   absent));
  }
  if (const std::string absent = is_elastic() ? absent_epochs(epochs_) : ""; !absent.empty())
    notes_.push_back(fmt::format("no records exist of these epochs: {}", absent));
  clocks_ = align_clocks(facts);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::int64_t begin = clocks_[i].at(ranks_[i].first_ns);
    begin_ns_ = i == 0 ? begin : std::min(begin_ns_, begin);
    if (clocks_[i].source() == AlignedClock::Source::wall) {
      notes_.push_back(
          fmt::format("{}: its host's clock was never compared with that of {}; the hosts' times "
                      "of day are used, with an unknown error",
                      name_of_rank(ranks_[i].origin), name_of_rank(ranks_.front().origin)));
    }
  }
  take_changes();
}

void JobFiles::note_faults(const RankFile& rank) {
  const std::string name = name_of_rank(rank.origin);
  if (!rank.missing.empty()) notes_.push_back(fmt::format("{}: {}", name, rank.missing));
  if (rank.lost != 0)
    notes_.push_back(fmt::format("{}: {} records were lost, because the disk was too slow", name, rank.lost));
  if (rank.limit != 0)
    notes_.push_back(
        fmt::format("{}: its file came near the limit of {} bytes (DABKE_TIMELINE_MAX_BYTES), so the "
                    "timeline of all ranks ends before the job",
                    name, rank.limit));
  if (rank.left_out != 0)
    notes_.push_back(
        fmt::format("{}: {} records had no room in its file while the ranks stopped, so it ends "
                    "earlier than others; raise the limit",
                    name, rank.left_out));
}

void JobFiles::take_epochs() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RecordFile::Origin& origin = ranks_[i].origin;
    if (epochs_.empty() || epochs_.back().number != origin.epoch)
      epochs_.push_back({.number = origin.epoch, .size = origin.size, .first = i});
    JobEpoch& epoch = epochs_.back();
    ++epoch.count;
    for (const ProcessSetId set : ranks_[i].sets) ++epoch.members[set];
    epoch_of_.push_back(epochs_.size() - 1);
  }
}

void JobFiles::take_changes() {
  if (!is_elastic()) return;
  std::vector<RankInEpoch> ranks;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankFile& file = ranks_[i];
    const auto shown = [&](std::int64_t time_ns) {
      return std::max<std::int64_t>(0, clocks_[i].at(time_ns) - begin_ns_);
    };
    EpochMoments moments = file.moments;
    for (auto* const moment : {&moments.work_ns, &moments.error_ns, &moments.leave_ns}) {
      if (*moment) *moment = shown(**moment);
    }
    ranks.push_back({file.origin.epoch, file.origin.rank, *file.origin.roster, moments, shown(file.last_ns)});
  }
  changes_ = changes_of(ranks);
}

int JobFiles::size() const {
  int size = 0;
  for (const JobEpoch& epoch : epochs_) size += epoch.size;
  return size;
}

std::int64_t JobFiles::base_time_ns(std::size_t file) const {
  const RecordFile::Origin& origin = ranks_[file].origin;
  return origin.realtime_ns - (clocks_[file].at(origin.monotonic_ns) - begin_ns_);
}

std::size_t JobFiles::members(std::size_t epoch, ProcessSetId set) const {
  const auto found = epochs_[epoch].members.find(set);
  return found == epochs_[epoch].members.end() ? 0 : found->second;
}

}  // namespace dabke::timeline
