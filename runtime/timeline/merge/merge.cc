#include "runtime/timeline/merge/merge.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "runtime/timeline/joining/merged_trace.h"
#include "runtime/timeline/report/record_analysis.h"

namespace dabke::timeline {

Status merge_records(const JobFiles& files, const std::string& path, const OnProgress& on_progress) {
  for (const RankFile& rank : files.ranks()) {
    std::error_code ignored;
    if (std::filesystem::equivalent(rank.path, path, ignored)) {
      return {Code::invalid_argument,
              fmt::format("'{}' contains the records themselves; choose another file for the trace", path)};
    }
  }
  DABKE_ASSIGN_OR_RETURN(const auto file, MergedFile::open(path));
  RecordJoiner joiner(files);
  MergedTrace trace(*file, files, joiner);
  RecordAnalysis analysis(files, joiner, &trace);
  DABKE_RETURN_IF_ERROR(joiner.run(analysis, on_progress));
  trace.finish(json_of(analysis.report(std::filesystem::path(files.ranks().front().path).stem())));
  return file->finish();
}

}  // namespace dabke::timeline
