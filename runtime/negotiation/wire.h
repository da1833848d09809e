// The negotiation's messages and their bytes.
//
// Layout: everything little-endian, numbers at their natural width, no padding; text and lists begin with a
// 32-bit count. A message is one byte MessageKind and the fields of its struct in order of declaration. The
// links refuse peers of another kWireVersion, so a decoder meets only its own version; bytes that do not fit
// are an error, never misread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/negotiation/request.h"

namespace dabke {

/// Up: these became ready on the sender.
struct ReadyMessage {
  std::vector<Request> requests;
};

/// Up: the sender submits nothing more.
struct GoodbyeMessage {};

/// Both ways: the job is over, because of this. Down it is the first cause.
struct FailMessage {
  Code code = Code::aborted;
  std::string text;
};

/// One element of the job's one sequence.
struct Order {
  enum class Kind : std::uint8_t { run, error, left };
  std::uint64_t number = 0;
  Kind kind = Kind::run;
  Request request;  // run: whole, because a joined rank never saw it; error: name and process set
  std::int32_t contributors = 0;  // run: ranks whose data counts; the divisor of an average
  Rank rank = -1;                 // left: who; join: who joined last
  ProcessSetId new_set = -1;      // add_process_set: its id
  Code error = Code::ok;          // error
  std::string text;               // error
};

/// Down: orders with consecutive numbers as far as the receiver takes part in them.
struct OrdersMessage {
  std::int64_t fusion_threshold = 0;  // the root's settings, so that every rank packs the same batches
  bool group_fusion = true;
  std::vector<Order> orders;
};

using Message = std::variant<ReadyMessage, GoodbyeMessage, FailMessage, OrdersMessage>;

/// Appends to `out`.
void encode(const Message& message, std::vector<std::byte>& out);
/// An error names what did not fit.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace dabke
