// Carries reports that ranks leave for the launcher in their job's store to the launcher's thread: dumps, and
// the job's figures.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/threads/owned.h"
#include "runtime/diagnosis/dumps/dump.h"
#include "runtime/diagnosis/live/job_figures.h"

namespace dabke::launcher {

class ReportGatherer {
 public:
  /// Fails if no descriptor is left.
  static Result<std::unique_ptr<ReportGatherer>> open();

  /// Takes a value that was set in the store, if it is for the launcher. From any thread.
  void offer(const std::string& key, const std::string& value);
  /// Readable while there is something to take.
  int event() const { return event_.get(); }
  std::vector<diagnosis::Dump> take_dumps();
  /// Returns the paths of the dumps that ranks have written, each once.
  std::vector<std::string> dump_files();
  /// Returns the newest figures, once.
  std::optional<diagnosis::JobFigures> take_figures();

 private:
  void clear_event() const;
  explicit ReportGatherer(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::mutex mutex_;
  std::vector<diagnosis::Dump> dumps_;
  std::set<std::string> dump_files_;
  std::optional<diagnosis::JobFigures> figures_;
};

}  // namespace dabke::launcher
