// Turns records into events of a Chrome trace, with the event names that Horovod's users know. Each tensor is
// a "process" of the trace, and so is each thread with spans of the application.
//
// The file is a JSON array that is valid after close(). If the process is killed, the file is readable up to
// the last flush, since the trace event format allows a missing closing bracket. Gaps are events named
// RECORDS_LOST. The last event holds the number of all lost records.
//
// Records may be missing or late. In any case the events of a row are properly nested, and their times never
// decrease:
//
//  - An end without its begin is left out. A begin ends an earlier event that is still open.
//  - The end of a negotiation or operation ends the activities in it; finish() ends all that is open.
//  - Ranks that are ahead may negotiate a tensor again before this rank has ended its operation. That
//    negotiation is drawn from the operation's end on. The marks of the ready ranks in it keep
//    their true time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/kinds.h"
#include "runtime/timeline/event_arguments.h"
#include "runtime/timeline/event_text.h"
#include "runtime/timeline/name_table.h"
#include "runtime/timeline/record_writer.h"
#include "runtime/timeline/trace_file.h"

namespace dabke::timeline {

class TraceWriter final : public RecordWriter {
 public:
  /// Writes the header. Times in the trace count from `start_ns`. `names` must outlive the writer.
  TraceWriter(TraceFile file, const NameTable& names, std::int64_t start_ns,
              std::int64_t start_since_epoch_us);

  void write(const Record& record) override;
  void mark_lost(std::int64_t time_ns, std::uint64_t count) override;
  void finish(std::int64_t time_ns, const EndCounts& counts) override;
  void flush() override;
  std::uint64_t bytes() const override { return file_.bytes(); }
  std::uint64_t bytes_of_record() const override { return 64; }
  const Status& error() const override { return file_.error(); }
  Status close() override { return file_.close(); }

 private:
  enum class Phase : std::uint8_t { idle, negotiating, running };
  struct Negotiation {
    CollectiveKind kind;
    bool ended;
  };
  /// The numbers by which records name a batch.
  struct BatchKey {
    std::uint64_t order = 0;  // 0 if there is none
    std::uint32_t tensor = 0;
    bool operator==(const BatchKey&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const BatchKey& key) const { return (key.order << 8) ^ key.tensor; }
  };
  struct Members {
    std::vector<std::uint32_t> rows;
    std::size_t left = 0;  // rows that are still in the batch
  };
  struct Row {
    explicit Row(std::uint32_t pid);

    ShortText pid_text;  // ,"pid":17
    Phase phase = Phase::idle;
    std::uint32_t activities = 0;        // open activities, inside the phase
    std::int64_t last_ns = 0;            // time of the last begin or end
    std::optional<Negotiation> waiting;  // a negotiation that began before the operation ended
    BatchKey batch;                      // the batch that the tensor is in
  };

  void take(const Record& record);
  void add_new_rows();
  void add_row(std::string_view name);
  void name_row(std::uint32_t pid, std::string_view name, std::uint32_t sort_index);
  void metadata(std::uint32_t pid, Event event, const EventArguments& args);
  void mark(Event event, std::int64_t time_ns, const EventArguments& args = {});
  void write_tensor(const Record& record);
  void write_activity(const Record& record);
  void write_span(const Record& record);
  void ready(Row& row, const Record& record);
  void negotiate_start(Row& row, CollectiveKind kind);
  void negotiate_end(Row& row);
  void order(Row& row, const Record& record);
  void done(Row& row, const Record& record);
  void error(Row& row, const Record& record);
  void leave_batch(Row& row);
  std::string_view activity_of(const Record& record) const;

  void begin_negotiation(const Row& row, CollectiveKind kind, std::int64_t time_ns);
  void begin_waiting(Row& row, std::int64_t time_ns);
  void begin(const Row& row, std::string_view name, std::int64_t time_ns);
  void end(const Row& row, std::int64_t time_ns, std::string_view args = {});
  void end_activities(Row& row, std::int64_t time_ns);
  void end_all(Row& row, std::int64_t time_ns, std::string_view args = {});

  const ShortText& micros(std::int64_t time_ns);

  TraceFile file_;
  const NameTable& names_;
  const std::int64_t start_ns_;
  std::vector<Row> rows_;               // by tensor number - 1
  std::map<std::uint32_t, Row> spans_;  // by thread number
  std::unordered_map<BatchKey, Members, KeyHash> batches_;
  ShortText micros_;
  std::int64_t micros_of_ns_ = -1;
  std::uint64_t open_ = 0;      // events that have begun and not ended
  std::uint64_t left_out_ = 0;  // records that had no room
};

/// Opens the file and begins a trace at the present time. `limit` is the largest size of the file in bytes; 0
/// for no limit. The first record whose events have no room and all records after it are left out, and
/// counted as lost.
Result<std::unique_ptr<RecordWriter>> open_trace(const std::string& path, const NameTable& names,
                                                 std::int64_t start_ns, std::uint64_t limit = 0);

}  // namespace dabke::timeline
