// Turns records into events of a Chrome trace. Whatever records come, and whichever are missing, what it
// writes is properly nested in every row and never goes back in time within it:
//
//   - an end without its start is left out; a start while the thing before it is open ends that first;
//   - the end of a negotiation or operation ends the activities in it, finish() ends all that is open;
//   - ranks that are ahead may negotiate a tensor again before this rank has ended its operation. That
//   negotiation is
//     drawn from the operation's end on; the marks of the ready ranks in it keep their true time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/kinds.h"
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
    Phase phase = Phase::idle;
    std::uint32_t activities = 0;        // open ones, inside the phase
    std::int64_t last_ns = 0;            // of the last begin or end
    std::optional<Negotiation> waiting;  // one that started before the operation ended
  };

  void negotiate_start(std::uint32_t pid, Row& row, const Record& record);
  void negotiate_end(std::uint32_t pid, Row& row, std::int64_t time_ns);
  void op_start(std::uint32_t pid, Row& row, const Record& record);
  void op_end(std::uint32_t pid, Row& row, const Record& record);
  void op_error(std::uint32_t pid, Row& row, const Record& record);

  void begin_negotiation(std::uint32_t pid, CollectiveKind kind, std::int64_t time_ns);
  void begin_waiting(std::uint32_t pid, Row& row, std::int64_t time_ns);
  void begin(std::uint32_t pid, std::string_view name, std::int64_t time_ns);
  void end(std::uint32_t pid, std::int64_t time_ns, std::string_view args = {});
  void end_activities(std::uint32_t pid, Row& row, std::int64_t time_ns);
  void end_all(std::uint32_t pid, Row& row, std::int64_t time_ns, std::string_view args = {});

  TraceFile& file_;
  std::vector<Row> rows_;
};

}  // namespace dabke
