#include "runtime/timeline/report/record_analysis.h"

#include <algorithm>
#include <map>

namespace dabke::timeline {
RecordAnalysis::RecordAnalysis(const JobFiles& files, const RecordJoiner& joiner, JoinSink* next)
    : analysis_([&joiner](std::size_t rank, NameKind kind, std::uint32_t number) {
        return joiner.name(rank, kind, number);
      }),
      next_(next) {
  std::map<Rank, std::size_t> known;
  for (std::size_t i = 0; i < files.ranks().size(); ++i) {
    const RankFile& file = files.ranks()[i];
    const auto before = known.find(file.origin.rank);
    const std::size_t index =
        before == known.end() ? analysis_.add_rank(file.origin.rank) : analysis_.add_epoch(before->second);
    known.emplace(file.origin.rank, index);
    const bool is_in_last_epoch = files.epoch_of(i) + 1 == files.epochs().size();
    if (is_in_last_epoch && file.missing.empty()) analysis_.was_closed(index);
  }
  for (const EpochChange& change : files.changes()) analysis_.change(change);
  std::int64_t error_ns = 0;
  for (const AlignedClock& clock : files.clocks())
    error_ns = std::max(error_ns, clock.error_ns().value_or(0));
  analysis_.clocks_may_be_wrong(error_ns);
  for (const std::string& note : files.notes()) analysis_.note(note);
}

void RecordAnalysis::batch(const JoinedBatch& batch) {
  analysis_.batch(batch);
  if (next_ != nullptr) next_->batch(batch);
}
void RecordAnalysis::lonely_tensor(std::size_t rank, const JoinedTensor& tensor) {
  analysis_.lonely_tensor(rank, tensor);
  if (next_ != nullptr) next_->lonely_tensor(rank, tensor);
}
void RecordAnalysis::called(std::size_t rank, const Record& record, std::int64_t at_ns) {
  if (next_ != nullptr) next_->called(rank, record, at_ns);
}
void RecordAnalysis::span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
                          std::int64_t end_ns) {
  analysis_.span(rank, name, {begin_ns, end_ns});
  if (next_ != nullptr) next_->span(rank, thread, name, begin_ns, end_ns);
}
void RecordAnalysis::wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns,
                          std::int64_t end_ns) {
  analysis_.wait(rank, thread, {begin_ns, end_ns});
  if (next_ != nullptr) next_->wait(rank, thread, begin_ns, end_ns);
}
void RecordAnalysis::step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) {
  analysis_.step(rank, thread, at_ns, step);
  if (next_ != nullptr) next_->step(rank, thread, at_ns, step);
}
void RecordAnalysis::cycle(std::size_t rank, std::int64_t at_ns) {
  if (next_ != nullptr) next_->cycle(rank, at_ns);
}
void RecordAnalysis::lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) {
  if (next_ != nullptr) next_->lost(rank, at_ns, count);
}
void RecordAnalysis::load(std::size_t rank, std::int64_t at_ns, const Load& load) {
  if (next_ != nullptr) next_->load(rank, at_ns, load);
}

Result<TraceReport> report_of(const JobFiles& files, std::string source, const OnProgress& on_progress) {
  RecordJoiner joiner(files);
  RecordAnalysis analysis(files, joiner);
  DABKE_RETURN_IF_ERROR(joiner.run(analysis, on_progress));
  return analysis.report(std::move(source));
}

}  // namespace dabke::timeline
