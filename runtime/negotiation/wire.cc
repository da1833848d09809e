#include "runtime/negotiation/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "runtime/base/possible_shape.h"

namespace dabke {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is the native one here");

// One list of fields serves three archives: `archive(field)` writes it, reads it, or counts the fewest bytes
// that it can take.

template <class T, class Plain>
concept Is = std::is_same_v<std::remove_const_t<T>, Plain>;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  static constexpr bool kReading = false;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { append(&value, sizeof value); }
  void operator()(const std::string& text) {
    count(text.size());
    append(text.data(), text.size());
  }
  void count(std::size_t n) { varint(n); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }

 private:
  void append(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), first, first + bytes);
  }
  std::vector<std::byte>& out_;
};

/// Counts what a default-constructed thing takes on the wire. That is the least that any can: fields of a
/// fixed width always take it; text, lists and varints take a byte at least; what is optional is absent.
class Sizer {
 public:
  static constexpr bool kReading = false;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T&) { bytes_ += sizeof(T); }
  void operator()(const std::string&) { ++bytes_; }
  void count(std::size_t) { ++bytes_; }
  void varint(std::uint64_t) { ++bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  static constexpr bool kReading = true;

  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T> void operator()(
                                                                       T& value) {
    if (const std::byte* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) fail("a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(std::string& text) {
    const std::size_t n = count(1);
    if (const std::byte* from = take(n)) text.assign(reinterpret_cast<const char*>(from), n);
  }
  /// A list's length; each element takes at least `least_bytes`, so a length that cannot be true is refused
  /// before anything is allocated for it.
  std::size_t count(std::size_t least_bytes) {
    const std::uint64_t n = varint();
    if (n > in_.size() / least_bytes) {
      fail("a list longer than the message");
      return 0;
    }
    return n;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      std::uint8_t byte = 0;
      (*this)(byte);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
    return 0;
  }
  void varint(std::uint64_t& value) { value = varint(); }
  void varint(std::uint32_t& value) {
    const std::uint64_t wide = varint();
    if (wide > std::numeric_limits<std::uint32_t>::max()) fail("a number of more than 32 bits");
    value = static_cast<std::uint32_t>(wide);
  }
  /// Whether `count` numbers from `first` on may follow. The whole message has one allowance, because a few
  /// bytes can stand for a million of them.
  bool allows_numbered(std::uint64_t first, std::uint64_t count, std::string_view what) {
    if (count <= numbered_left_ && count <= kNoSlot - first) {
      numbered_left_ -= count;
      return true;
    }
    fail(fmt::format("more {} than there can be", what));
    return false;
  }
  std::uint8_t byte() {
    std::uint8_t value = 0;
    (*this)(value);
    return value;
  }
  void fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    in_ = {};
  }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t left() const { return in_.size(); }

 private:
  const std::byte* take(std::size_t bytes) {
    if (bytes > in_.size()) {
      fail("the message ends too early");
      return nullptr;
    }
    const std::byte* from = in_.data();
    in_ = in_.subspan(bytes);
    return from;
  }
  std::span<const std::byte> in_;
  std::string error_;
  std::uint64_t numbered_left_ = kMostSlotsInMessage;
};

template <class Archive, class T>
void element(Archive& archive, T& item) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<std::remove_const_t<T>, std::string>) {
    archive(item);
  } else {
    fields(archive, item);
  }
}

/// The fewest bytes that an element of a list takes, from the list of its fields.
template <class T>
std::size_t least_bytes() {
  Sizer sizer;
  const T least{};
  element(sizer, least);
  return sizer.bytes();
}

template <class Archive, class T>
void list(Archive& archive, T& items) {
  if constexpr (Archive::kReading) {
    items.resize(archive.count(least_bytes<typename T::value_type>()));
  } else {
    archive.count(items.size());
  }
  for (auto& item : items) {
    if constexpr (Archive::kReading) {
      if (archive.failed()) return;
    }
    element(archive, item);
  }
}

template <class Archive, class S>
void shape(Archive& archive, S& value, DType dtype) {
  std::vector<std::int64_t> dims(value.dims().begin(), value.dims().end());
  list(archive, dims);
  if constexpr (Archive::kReading) {
    value = Shape(dims);
    if (!is_possible(value, dtype)) archive.fail("a shape with an impossible dimension");
  }
}

template <class Archive, class E>
void checked_enum(Archive& archive, E& value, std::uint64_t most, std::string_view what) {
  archive(value);
  if constexpr (Archive::kReading) {
    if (static_cast<std::uint64_t>(value) > most) archive.fail(fmt::format("an unknown {}", what));
  }
}

template <class Archive, class T>
void call_field(Archive& archive, T& value, std::string_view name) {
  if constexpr (std::is_enum_v<T>) {
    checked_enum(archive, value, static_cast<std::uint64_t>(kLast<std::remove_const_t<T>>), name);
  } else {
    archive(value);
  }
}

template <class Archive, Is<TensorSpec> T>
void fields(Archive& archive, T& tensor) {
  archive(tensor.name);
  checked_enum(archive, tensor.dtype, static_cast<std::uint64_t>(kLast<DType>), "dtype");
  shape(archive, tensor.shape, tensor.dtype);
}

template <class Archive, Is<Request> R>
void fields(Archive& archive, R& request) {
  archive(request.name);
  archive(request.process_set);
  for_each_call_field([&](const auto& field) {
    if (field.is_each_tensors) return;
    using Call = std::conditional_t<std::is_const_v<R>, const CallSpec, CallSpec>;
    call_field(archive, static_cast<Call&>(request).*field.value, field.name);
  });
  archive(request.priority);
  list(archive, request.tensors);
  list(archive, request.ranks);
  archive(request.refused);
  archive(request.is_group);
}

template <class Archive, class R>
void request_ref(Archive& archive, R& request) {
  if constexpr (Archive::kReading) {
    auto read = std::make_shared<Request>();
    fields(archive, *read);
    request = std::move(read);
  } else if constexpr (std::is_same_v<Archive, Sizer>) {
    const Request least;
    fields(archive, least);
  } else {
    fields(archive, *request);
  }
}

struct SlotRun {
  Slot first;
  std::uint64_t length;
};

std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

template <class Archive>
void slots(Archive& archive, const std::vector<Slot>& all) requires(!Archive::kReading) {
  std::vector<SlotRun> runs;
  std::size_t run_bytes = 0;
  for (const Slot slot : all) {
    if (!runs.empty() && runs.back().first + runs.back().length == slot) {
      ++runs.back().length;
    } else {
      runs.push_back({slot, 1});
      run_bytes += varint_bytes(slot) + 1;
    }
  }
  if (runs.size() > 1) {
    const auto [least, most] = std::ranges::minmax(all);
    const std::uint64_t bytes = (most - least) / 8 + 1;
    if (bytes < run_bytes) {
      archive(std::uint8_t{1});
      archive.varint(least);
      archive.varint(bytes);
      std::vector<std::uint8_t> bits(bytes);
      for (const Slot slot : all)
        bits[(slot - least) / 8] |= static_cast<std::uint8_t>(1U << ((slot - least) % 8));
      for (const std::uint8_t byte : bits) archive(byte);
      return;
    }
  }
  archive(std::uint8_t{0});
  archive.varint(runs.size());
  for (const SlotRun& run : runs) {
    archive.varint(run.first);
    archive.varint(run.length);
  }
}

void slots(Reader& archive, std::vector<Slot>& all) {
  const std::uint8_t form = archive.byte();
  if (form == 1) {
    const Slot first = archive.varint();
    const std::uint64_t bytes = archive.varint();
    if (bytes > archive.left() || bytes > (kNoSlot - first) / 8) {
      return archive.fail("a bitmap longer than the message");
    }
    for (std::uint64_t i = 0; i < bytes; ++i) {
      unsigned byte = archive.byte();
      if (!archive.allows_numbered(first, static_cast<unsigned>(std::popcount(byte)), "slots")) return;
      for (; byte != 0; byte &= byte - 1) {
        all.push_back(first + i * 8 + static_cast<unsigned>(std::countr_zero(byte)));
      }
    }
    return;
  }
  if (form != 0) return archive.fail("slots of an unknown form");
  for (std::uint64_t runs = archive.varint(); runs > 0 && !archive.failed(); --runs) {
    const Slot first = archive.varint();
    const std::uint64_t length = archive.varint();
    if (!archive.allows_numbered(first, length, "slots")) return;
    for (std::uint64_t i = 0; i < length; ++i) all.push_back(first + i);
  }
}

template <class Archive, Is<LearnedBatch> B>
void fields(Archive& archive, B& batch) {
  archive(batch.hold_us);
  slots(archive, batch.slots);
}

template <class Archive, Is<Order> O>
void fields(Archive& archive, O& order) {
  archive(order.number);
  checked_enum(archive, order.kind, static_cast<std::uint64_t>(Order::Kind::release), "order");
  archive(order.slot);
  bool has_request = order.request != nullptr;
  archive(has_request);
  if (has_request) request_ref(archive, order.request);
  archive(order.contributors);
  archive(order.rank);
  archive(order.new_set);
  checked_enum(archive, order.error, static_cast<std::uint64_t>(Code::internal), "status code");
  archive(order.text);
  archive(order.forced);
  archive(order.batch);
  list(archive, order.batch_by_tensor);
  list(archive, order.batches);
  if constexpr (Archive::kReading) {
    if (order.kind == Order::Kind::error && !order.request) archive.fail("an error without a name");
    if (order.kind == Order::Kind::run && !order.request && order.slot == kNoSlot) {
      archive.fail("an order of nothing");
    }
  }
}

enum OrderForm : std::uint8_t { kCachedRun, kFull, kEnd };

/// How far `next` goes on where a run of cached orders stood after `before`.
bool continues(const Order& before, const Order& next, std::uint32_t batch_step) {
  return is_plain_cached(next) && next.number == before.number + 1 && next.slot == before.slot + 1 &&
         next.batch == before.batch + batch_step;
}

void orders(Writer& archive, const std::vector<Order>& all) {
  for (std::size_t i = 0; i < all.size();) {
    if (!is_plain_cached(all[i])) {
      archive(std::uint8_t{kFull});
      fields(archive, all[i++]);
      continue;
    }
    std::size_t end = i + 1;
    const std::uint32_t batch_step = end < all.size() && all[end].batch == all[i].batch + 1 ? 1 : 0;
    while (end < all.size() && continues(all[end - 1], all[end], batch_step)) ++end;
    archive(std::uint8_t{kCachedRun});
    archive.varint(all[i].number);
    archive.varint(all[i].slot);
    archive.varint(end - i);
    archive.varint(std::uint64_t{2} * all[i].batch + batch_step);
    i = end;
  }
  archive(std::uint8_t{kEnd});
}

void orders(Reader& archive, std::vector<Order>& all) {
  std::uint64_t cached_left = kMostCachedOrdersInMessage;
  while (!archive.failed()) {
    const std::uint8_t form = archive.byte();
    if (form == kEnd) return;
    if (form == kFull) {
      fields(archive, all.emplace_back());
    } else if (form == kCachedRun) {
      const std::uint64_t number = archive.varint();
      const Slot slot = archive.varint();
      const std::uint64_t length = archive.varint();
      if (!archive.allows_numbered(slot, length, "orders")) return;
      if (length > cached_left) return archive.fail("more cached orders than there can be");
      cached_left -= length;
      const std::uint64_t batch = archive.varint();
      for (std::uint64_t i = 0; i < length; ++i) {
        Order& order = all.emplace_back();
        order.number = number + i;
        order.slot = slot + i;
        order.batch = static_cast<std::uint32_t>(batch / 2 + (batch % 2) * i);
      }
    } else {
      archive.fail("an order of an unknown form");
    }
  }
}

template <class Archive, Is<Variant> V>
void fields(Archive& archive, V& variant) {
  request_ref(archive, variant.request);
  list(archive, variant.ranks);
}

template <class Archive, Is<Report> R>
void fields(Archive& archive, R& report) {
  list(archive, report.variants);
  archive(report.contributors);
  archive(report.root_absent);
  if constexpr (Archive::kReading) {
    if (report.variants.empty()) archive.fail("a report of nothing");
  }
}

template <class Archive, Is<JoinReport> J>
void fields(Archive& archive, J& join) {
  archive(join.process_set);
  archive(join.last);
  list(archive, join.unfinished);
}

template <class Archive, class S>
void subject(Archive& archive, S& value) {
  checked_enum(archive, value, static_cast<std::uint64_t>(StallSubject::batch), "stalled thing");
}

template <class Archive, class M>
void body(Archive& archive, M& message) {
  using Plain = std::remove_const_t<M>;
  if constexpr (std::is_same_v<Plain, ReadyMessage>) {
    archive.varint(message.seen);
    slots(archive, message.slots);
    auto late = static_cast<std::uint32_t>(message.late_rank) + 1;
    archive.varint(late);
    if constexpr (Archive::kReading) message.late_rank = static_cast<Rank>(late - 1);
    archive.varint(message.late_us);
    slots(archive, message.wanted);
    slots(archive, message.awaited);
    list(archive, message.reports);
    list(archive, message.joins);
  } else if constexpr (std::is_same_v<Plain, GoodbyeMessage>) {
    archive(message.rank);
  } else if constexpr (std::is_same_v<Plain, FailMessage>) {
    checked_enum(archive, message.code, static_cast<std::uint64_t>(Code::internal), "status code");
    archive(message.text);
  } else if constexpr (std::is_same_v<Plain, OrdersMessage>) {
    orders(archive, message.orders);
  } else if constexpr (std::is_same_v<Plain, InquiryMessage>) {
    archive(message.id);
    archive(message.everybody);
    subject(archive, message.subject);
    archive(message.process_set);
    archive(message.name);
  } else if constexpr (std::is_same_v<Plain, AnswerMessage>) {
    archive(message.id);
    archive(message.rank);
    archive(message.last_order);
    archive(message.idle_ms);
    list(archive, message.sets);
    list(archive, message.signatures);
    list(archive, message.joined);
    list(archive, message.instead);
    archive(message.instead_count);
    archive(message.inside);
    archive(message.inside_number);
    archive(message.inside_ms);
    archive(message.stack);
    if constexpr (Archive::kReading) {
      if (message.sets.size() != message.signatures.size()) archive.fail("sets without signatures");
    }
  } else if constexpr (std::is_same_v<Plain, NoticeMessage>) {
    subject(archive, message.subject);
    archive(message.process_set);
    archive(message.number);
    archive(message.name);
    archive(message.age_ms);
    archive(message.suspect);
  } else if constexpr (std::is_same_v<Plain, DumpMessage>) {
    archive(message.incident);
    archive(message.asked);
    archive(message.reason);
  } else if constexpr (std::is_same_v<Plain, GroupNoticeMessage>) {
    archive(message.process_set);
    archive(message.group);
    archive(message.age_ms);
  } else if constexpr (std::is_same_v<Plain, GroupInquiryMessage>) {
    archive(message.id);
    archive(message.process_set);
    archive(message.group);
  } else if constexpr (std::is_same_v<Plain, GroupAnswerMessage>) {
    archive(message.id);
    archive(message.rank);
    archive(message.size);
    archive(message.came);
    archive(message.joined);
    archive(message.age_ms);
    list(archive, message.members);
  }
}

template <std::size_t I = 0>
Result<Message> decode_as(std::size_t kind, Reader& reader) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Status(Code::transport, fmt::format("negotiation message of unknown kind {}", kind));
  } else {
    if (kind != I) return decode_as<I + 1>(kind, reader);
    std::variant_alternative_t<I, Message> message;
    body(reader, message);
    if (reader.failed())
      return Status(Code::transport, fmt::format("negotiation message refused: {}", reader.error()));
    if (reader.left() != 0) {
      return Status(Code::transport,
                    fmt::format("negotiation message refused: {} bytes too many", reader.left()));
    }
    return Message(std::move(message));
  }
}

}  // namespace

void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& held) { body(writer, held); }, message);
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::uint8_t kind = 0xff;
  reader(kind);
  if (reader.failed()) return Status(Code::transport, "empty negotiation message");
  return decode_as(kind, reader);
}

}  // namespace dabke
