// Turns records into events of a Chrome trace. Whatever records come, and whichever are missing, what it
// writes is properly nested in every row and never goes back in time within it:
//
//   - an end without its start is left out; a start while the thing before it is open ends that first;
//   - the end of a negotiation or operation ends the activities in it, finish() ends all that is open;
//   - ranks that are ahead may negotiate a tensor again before this rank has ended its operation. That
//     negotiation is drawn from the operation's end on; the marks of the ready ranks in it keep their true
//     time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/kinds.h"
#include "runtime/timeline/event_text.h"
#include "runtime/timeline/record.h"
#include "runtime/timeline/trace_file.h"

namespace dabke {

class TraceWriter {
 public:
  /// Writes the header. The file must outlive the writer.
  TraceWriter(TraceFile& file, std::int64_t start_since_epoch_us);

  /// The row of the next tensor: 1, 2, ...
  void add_row(std::string_view name);
  std::size_t rows() const { return rows_.size(); }

  /// Records of rows that do not exist are left out.
  void write(const Record& record);
  /// Marks a moment before which `count` records were lost.
  void mark_lost(std::int64_t time_ns, std::uint64_t count);
  /// Ends all that is open, and says how many records were written and lost.
  void finish(std::int64_t time_ns, std::uint64_t written, std::uint64_t lost);

 private:
  enum class Phase : std::uint8_t { idle, negotiating, running };
  struct Negotiation {
    CollectiveKind kind;
    bool ended;
  };
  struct Row {
    explicit Row(std::uint32_t pid);

    ShortText pid_text;  // ,"pid":17
    Phase phase = Phase::idle;
    std::uint32_t activities = 0;        // open ones, inside the phase
    std::int64_t last_ns = 0;            // the last begin or end
    std::optional<Negotiation> waiting;  // one that started before the operation ended
  };

  void write_row(std::uint32_t pid, const Record& record);
  void negotiate_start(Row& row, const Record& record);
  void negotiate_end(Row& row, std::int64_t time_ns);
  void op_start(Row& row, const Record& record);
  void op_end(Row& row, const Record& record);
  void op_error(Row& row, const Record& record);

  void begin_negotiation(const Row& row, CollectiveKind kind, std::int64_t time_ns);
  void begin_waiting(Row& row, std::int64_t time_ns);
  void begin(const Row& row, std::string_view name, std::int64_t time_ns);
  void end(const Row& row, std::int64_t time_ns, std::string_view args = {});
  void end_activities(Row& row, std::int64_t time_ns);
  void end_all(Row& row, std::int64_t time_ns, std::string_view args = {});

  const ShortText& micros(std::int64_t time_ns);

  TraceFile& file_;
  std::vector<Row> rows_;
  ShortText micros_;
  std::int64_t micros_of_ns_ = -1;
};

}  // namespace dabke
