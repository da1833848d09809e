// Hands the events of a job's records to an analysis, and to another sink if there is one.
#pragma once

#include <string>

#include "runtime/timeline/joining/record_joiner.h"
#include "runtime/timeline/report/analysis.h"

namespace dabke::timeline {

class RecordAnalysis final : public JoinSink {
 public:
  /// `next` is null if there is no other sink.
  RecordAnalysis(const JobFiles& files, const RecordJoiner& joiner, JoinSink* next = nullptr);

  void batch(const JoinedBatch& batch) override;
  void lonely_tensor(std::size_t rank, const JoinedTensor& tensor) override;
  void called(std::size_t rank, const Record& record, std::int64_t at_ns) override;
  void span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
            std::int64_t end_ns) override;
  void wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns, std::int64_t end_ns) override;
  void step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) override;
  void cycle(std::size_t rank, std::int64_t at_ns) override;
  void lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) override;
  void load(std::size_t rank, std::int64_t at_ns, const Load& load) override;

  /// Returns the report. Call it once, after the joiner has ended.
  TraceReport report(std::string source) { return analysis_.report(std::move(source)); }

 private:
  Analysis analysis_;
  JoinSink* const next_;
};

/// Returns the report of the records, without writing a trace.
Result<TraceReport> report_of(const JobFiles& files, std::string source, const OnProgress& on_progress = {});

}  // namespace dabke::timeline
