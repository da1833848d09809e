// Random messages of every kind, written and read again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "runtime/negotiation/wire/wire.h"

namespace dabke::test {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  bool coin() { return below(2) == 0; }
  /// A number of any magnitude, including the limits.
  template <class T>
  T number() {
    switch (below(8)) {
      case 0: return 0;
      case 1: return std::numeric_limits<T>::max();
      case 2: return std::numeric_limits<T>::min();
      default: return static_cast<T>(engine_() >> below(64));
    }
  }
  template <class T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + below(all.size()));
  }
  std::string text() {
    std::string text(of<std::size_t>({0, 0, 1, 5, 127, 128, 300}), '\0');
    for (char& c : text) c = static_cast<char>(engine_());
    return text;
  }
  Status status() {
    const auto code = static_cast<Code>(below(20));
    return code == Code::ok ? Status() : Status(code, text());
  }
  template <class T>
  std::vector<T> numbers() {
    std::vector<T> all(of<std::size_t>({0, 0, 1, 2, 130}));
    for (T& one : all) one = number<T>();
    return all;
  }
  /// Ascending slots, because a bitmap keeps no other order: none, one, neighbours, or many with gaps.
  std::vector<wire::Slot> slots() {
    std::vector<wire::Slot> all;
    wire::Slot slot = (below(3) << 32) + below(100'000);
    const std::uint64_t gaps = of<std::uint64_t>({1, 2, 20, 1000});
    const auto length = of<std::size_t>({0, 0, 1, 2, 9, 500});
    while (all.size() < length) all.push_back(slot += 1 + below(gaps));
    return all;
  }
  std::vector<std::string> texts(std::size_t count) {
    std::vector<std::string> all(count);
    for (std::string& one : all) one = text();
    return all;
  }

  Shape shape() {
    const bool is_empty = below(8) == 0;
    std::vector<std::int64_t> dims(of<std::size_t>({0, 0, 1, 2, 5, 6, 9}));
    for (std::int64_t& dim : dims) dim = static_cast<std::int64_t>(below(40)) + (is_empty ? 0 : 1);
    if (dims.size() == 2 && coin()) dims = {0, (1LL << 60) - 1};  // no elements, but a huge dimension
    return Shape(dims);
  }
  /// A value for a field of a call.
  template <class T>
  T any() {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(below(static_cast<std::uint64_t>(kLast<T>) + 1));
    } else if constexpr (std::is_floating_point_v<T>) {
      return of<T>({1, 0.1, 0.25, -0.0, 1e300, -1e-300, std::numeric_limits<T>::denorm_min()});
    } else {
      return number<T>();
    }
  }
  Request request() {
    Request request;
    request.name = text();
    request.process_set = number<ProcessSetId>();
    for_each_call_field([&]<class T>(const CallField<T>& field) {
      if (!field.is_each_tensors) request.*field.value = any<T>();
    });
    request.priority = number<std::int32_t>();
    // Scalars without names are the shortest tensors of a group. Half of all groups have nothing else.
    const bool shortest = coin();
    for (std::size_t left = of<std::size_t>({0, 1, 1, 2, 3, 40, 1000}); left > 0; --left) {
      TensorSpec tensor;
      tensor.dtype = kDTypes[below(kDTypes.size())];
      if (!shortest) {
        tensor.name = text();
        tensor.shape = shape();
      }
      request.tensors.push_back(tensor);
    }
    request.ranks = numbers<Rank>();
    request.refused = status();
    request.is_group = coin();
    return request;
  }
  RequestRef request_ref() { return std::make_shared<const Request>(request()); }
  RequestRef shortest_request() { return std::make_shared<const Request>(); }

  wire::Report report() {
    wire::Report report;
    for (std::size_t left = of<std::size_t>({1, 1, 2, 7}); left > 0; --left) {
      report.variants.push_back({coin() ? shortest_request() : request_ref(), numbers<Rank>()});
    }
    report.contributors = number<std::int32_t>();
    report.root_absent = coin();
    report.joined = numbers<Rank>();
    return report;
  }
  wire::Order order() {
    wire::Order order;
    order.number = number<std::uint64_t>();
    order.kind = of({wire::Order::Kind::run, wire::Order::Kind::run, wire::Order::Kind::error,
                     wire::Order::Kind::left, wire::Order::Kind::evict, wire::Order::Kind::learned,
                     wire::Order::Kind::release, wire::Order::Kind::timeline, wire::Order::Kind::change});
    order.slot = below(1'000'000);
    if (order.kind == wire::Order::Kind::error || coin()) order.request = request_ref();
    order.contributors = number<std::int32_t>();
    if (order.kind == wire::Order::Kind::run && !order.request && order.contributors == 0)
      return cached_run();
    order.rank = number<Rank>();
    order.new_set = number<ProcessSetId>();
    order.error = static_cast<Code>(below(20));
    order.text = text();
    order.forced = coin();
    order.starts = order.kind == wire::Order::Kind::timeline && coin();
    order.marks_cycles = order.kind == wire::Order::Kind::timeline && coin();
    if (order.kind == wire::Order::Kind::change) order.changes = number<std::uint64_t>();
    order.batch = number<std::uint32_t>();
    order.batch_by_tensor = numbers<std::uint32_t>();
    for (std::size_t left = of<std::size_t>({0, 0, 1, 60}); left > 0; --left) {
      order.batches.push_back({number<std::uint32_t>(), slots()});
    }
    return order;
  }
  wire::Order cached_run() {
    wire::Order order;
    order.number = number<std::uint64_t>();
    order.slot = below(1'000'000);
    order.batch = number<std::uint32_t>();
    return order;
  }

  template <class M>
  M message();

 private:
  std::mt19937_64 engine_;
};

template <>
wire::ReadyMessage Random::message() {
  wire::ReadyMessage message;
  message.seen = number<std::uint64_t>();
  message.slots = slots();
  message.late_rank = static_cast<Rank>(below(1U << 31)) - 1;
  message.late_us = number<std::uint32_t>();
  message.wanted = slots();
  message.awaited = slots();
  for (std::size_t left = of<std::size_t>({0, 1, 2, 50}); left > 0; --left)
    message.reports.push_back(report());
  for (std::size_t left = of<std::size_t>({0, 1, 2, 50}); left > 0; --left) {
    message.joins.push_back({number<ProcessSetId>(), number<Rank>(), texts(below(4)), {}});
    for (std::uint64_t more = below(3); more > 0; --more) {
      message.joins.back().not_served.push_back({of({DeviceType::host, DeviceType::cuda}), number<Rank>()});
    }
  }
  return message;
}
template <>
wire::GoodbyeMessage Random::message() {
  return {number<Rank>()};
}
template <>
wire::FailMessage Random::message() {
  return {static_cast<Code>(below(20)), text()};
}
template <>
wire::OrdersMessage Random::message() {
  wire::OrdersMessage message;
  for (std::size_t left = of<std::size_t>({0, 1, 2, 50}); left > 0; --left) {
    message.orders.push_back(coin() ? cached_run() : order());
    // Successive cached orders travel as one range.
    for (std::uint64_t more = below(5); more > 0 && message.orders.back().slot != wire::kNoSlot; --more) {
      wire::Order next = cached_run();
      next.number = message.orders.back().number + 1;
      next.slot = message.orders.back().slot + 1;
      if (coin()) next.batch = message.orders.back().batch + static_cast<std::uint32_t>(below(2));
      message.orders.push_back(next);
    }
  }
  return message;
}
template <>
wire::InquiryMessage Random::message() {
  return {number<std::uint32_t>(), coin(),
          of({wire::StallSubject::tensor, wire::StallSubject::join, wire::StallSubject::batch}),
          number<ProcessSetId>(), text()};
}
template <>
wire::AnswerMessage Random::message() {
  wire::AnswerMessage message;
  message.id = number<std::uint32_t>();
  message.rank = number<Rank>();
  message.last_order = number<std::uint64_t>();
  message.idle_ms = number<std::uint64_t>();
  message.sets = numbers<ProcessSetId>();
  message.signatures = texts(message.sets.size());
  message.joined = numbers<ProcessSetId>();
  message.instead = texts(below(9));
  message.instead_count = number<std::uint32_t>();
  message.inside = text();
  message.inside_number = number<std::uint64_t>();
  message.inside_ms = number<std::uint64_t>();
  message.stack = text();
  return message;
}
template <>
wire::NoticeMessage Random::message() {
  return {of({wire::StallSubject::tensor, wire::StallSubject::join, wire::StallSubject::batch}),
          number<ProcessSetId>(),
          number<std::uint64_t>(),
          text(),
          number<std::uint64_t>(),
          coin()};
}
template <>
wire::DumpMessage Random::message() {
  return {number<std::uint64_t>(), coin(), text()};
}
template <>
wire::HeardMessage Random::message() {
  return {};
}

template <>
wire::GroupNoticeMessage Random::message() {
  return {number<ProcessSetId>(), text(), number<std::uint64_t>()};
}
template <>
wire::GroupInquiryMessage Random::message() {
  return {number<std::uint32_t>(), number<ProcessSetId>(), text()};
}
template <>
wire::GroupAnswerMessage Random::message() {
  return {number<std::uint32_t>(), number<Rank>(), number<std::uint32_t>(),
          number<std::uint32_t>(), coin(),         number<std::uint64_t>(),
          texts(below(2000)),      status()};
}

template <>
wire::SequenceNoticeMessage Random::message() {
  return {number<ProcessSetId>(), number<std::uint64_t>(), number<std::uint64_t>()};
}
template <>
wire::SequenceInquiryMessage Random::message() {
  return {number<std::uint32_t>(), number<ProcessSetId>(), number<std::uint64_t>(), number<std::uint64_t>(),
          coin()};
}
template <>
wire::SequenceAnswerMessage Random::message() {
  wire::SequenceAnswerMessage answer{
      number<std::uint32_t>(), number<Rank>(), coin(), text(), text(), text(), {}};
  while (coin()) answer.operations.push_back({number<ProcessSetId>(), text()});
  return answer;
}

template <>
wire::SenderQuestionMessage Random::message() {
  return {number<std::uint32_t>(), number<Rank>(), number<ProcessSetId>(), text()};
}
template <>
wire::SenderAnswerMessage Random::message() {
  return {number<std::uint32_t>(), number<Rank>(), number<Rank>(),
          number<ProcessSetId>(),  text(),         number<std::uint64_t>()};
}

template <>
wire::LookMessage Random::message() {
  return {};
}
template <>
wire::FiguresMessage Random::message() {
  return {{.rank = number<Rank>(),
           .steps = number<std::uint64_t>(),
           .step = number<std::uint64_t>(),
           .step_us = number<std::uint64_t>(),
           .bytes = number<std::uint64_t>(),
           .batches = number<std::uint64_t>(),
           .pending = number<std::uint64_t>(),
           .state = static_cast<RankFigures::State>(below(4)),
           .state_ms = number<std::uint64_t>(),
           .what = text()}};
}

template <>
wire::TimelineMessage Random::message() {
  return {number<std::uint64_t>(), {coin(), coin(), text()}};
}

template <std::size_t I = 0>
wire::Message any_message(Random& random, std::size_t kind) {
  if constexpr (I == std::variant_size_v<wire::Message>) {
    throw std::logic_error("no such message");
  } else {
    if (kind == I) return random.message<std::variant_alternative_t<I, wire::Message>>();
    return any_message<I + 1>(random, kind);
  }
}

// Equality of everything in a message. A new field of a struct must be compared here, too. The bindings below
// name every field, and do not compile with one more.

bool same(const CallSpec& a, const CallSpec& b) {
  const auto& [kind, device_type, dtype, op, prescale, postscale, root, compression, device_route] = a;
  return kind == b.kind && device_type == b.device_type && dtype == b.dtype && op == b.op && root == b.root &&
         compression == b.compression && device_route == b.device_route && prescale == b.prescale &&
         std::signbit(prescale) == std::signbit(b.prescale) && postscale == b.postscale;
}

// A class with a base has no bindings. Its members are counted by the longest list of initial values.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class... Values>
consteval std::size_t members_of() {
  if constexpr (requires { T{Values{}..., Anything{}}; }) {
    return members_of<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}
// The base is one of them. The last one, call_sequence, is not sent.
static_assert(members_of<Request>() == 9, "compare the new member below");

bool same(const Request& a, const Request& b) {
  return same(static_cast<const CallSpec&>(a), b) && a.name == b.name && a.process_set == b.process_set &&
         a.priority == b.priority && a.tensors == b.tensors && a.ranks == b.ranks && a.refused == b.refused &&
         a.is_group == b.is_group;
}
bool same(const RequestRef& a, const RequestRef& b) { return a && b ? same(*a, *b) : !a && !b; }
bool same(const wire::RequestVariant& a, const wire::RequestVariant& b) {
  const auto& [request, ranks] = a;
  return same(request, b.request) && ranks == b.ranks;
}
bool same(const wire::LearnedBatch& a, const wire::LearnedBatch& b) {
  const auto& [hold_us, slots] = a;
  return hold_us == b.hold_us && slots == b.slots;
}
bool same(const wire::JoinReport& a, const wire::JoinReport& b) {
  const auto& [set, last, unfinished, not_served] = a;
  const auto same_one = [](const wire::NotServed& x, const wire::NotServed& y) {
    const auto& [type, rank] = x;
    return type == y.type && rank == y.rank;
  };
  return set == b.process_set && last == b.last && unfinished == b.unfinished &&
         std::ranges::equal(not_served, b.not_served, same_one);
}
bool same(const wire::Report& a, const wire::Report& b);
bool same(const wire::Order& a, const wire::Order& b);
template <class T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return same(x, y); });
}
bool same(const wire::Report& a, const wire::Report& b) {
  const auto& [variants, contributors, root_absent, joined] = a;
  return all_same(variants, b.variants) && contributors == b.contributors && root_absent == b.root_absent &&
         joined == b.joined;
}
bool same(const wire::Order& a, const wire::Order& b) {
  const auto& [number, kind, slot, request, contributors, rank, new_set, error, text, forced, starts,
               marks_cycles, changes, batch, batch_by_tensor, batches] = a;
  return number == b.number && kind == b.kind && slot == b.slot && same(request, b.request) &&
         contributors == b.contributors && rank == b.rank && new_set == b.new_set && error == b.error &&
         text == b.text && forced == b.forced && starts == b.starts && marks_cycles == b.marks_cycles &&
         changes == b.changes && batch == b.batch && batch_by_tensor == b.batch_by_tensor &&
         all_same(batches, b.batches);
}
bool same(const wire::ReadyMessage& a, const wire::ReadyMessage& b) {
  const auto& [seen, slots, late_rank, late_us, wanted, awaited, reports, joins] = a;
  return seen == b.seen && slots == b.slots && late_rank == b.late_rank && late_us == b.late_us &&
         wanted == b.wanted && awaited == b.awaited && all_same(reports, b.reports) &&
         all_same(joins, b.joins);
}
bool same(const wire::GoodbyeMessage& a, const wire::GoodbyeMessage& b) { return a.rank == b.rank; }
bool same(const wire::FailMessage& a, const wire::FailMessage& b) {
  const auto& [code, text] = a;
  return code == b.code && text == b.text;
}
bool same(const wire::OrdersMessage& a, const wire::OrdersMessage& b) { return all_same(a.orders, b.orders); }
bool same(const wire::InquiryMessage& a, const wire::InquiryMessage& b) {
  const auto& [id, everybody, subject, set, name] = a;
  return id == b.id && everybody == b.everybody && subject == b.subject && set == b.process_set &&
         name == b.name;
}
bool same(const wire::AnswerMessage& a, const wire::AnswerMessage& b) {
  const auto& [id, rank, last_order, idle_ms, sets, signatures, joined, instead, instead_count, inside,
               inside_number, inside_ms, stack] = a;
  return id == b.id && rank == b.rank && last_order == b.last_order && idle_ms == b.idle_ms &&
         sets == b.sets && signatures == b.signatures && joined == b.joined && instead == b.instead &&
         instead_count == b.instead_count && inside == b.inside && inside_number == b.inside_number &&
         inside_ms == b.inside_ms && stack == b.stack;
}
bool same(const wire::NoticeMessage& a, const wire::NoticeMessage& b) {
  const auto& [subject, set, number, name, age_ms, suspect] = a;
  return subject == b.subject && set == b.process_set && number == b.number && name == b.name &&
         age_ms == b.age_ms && suspect == b.suspect;
}
bool same(const wire::TimelineMessage& a, const wire::TimelineMessage& b) {
  const auto& [from, change] = a;
  return from == b.from && change == b.change;
}
bool same(const wire::DumpMessage& a, const wire::DumpMessage& b) {
  const auto& [incident, asked, reason] = a;
  return incident == b.incident && asked == b.asked && reason == b.reason;
}
bool same(const wire::GroupNoticeMessage& a, const wire::GroupNoticeMessage& b) {
  const auto& [set, group, age_ms] = a;
  return set == b.process_set && group == b.group && age_ms == b.age_ms;
}
bool same(const wire::GroupInquiryMessage& a, const wire::GroupInquiryMessage& b) {
  const auto& [id, set, group] = a;
  return id == b.id && set == b.process_set && group == b.group;
}
bool same(const wire::GroupAnswerMessage& a, const wire::GroupAnswerMessage& b) {
  const auto& [id, rank, size, came, joined, age_ms, members, refused] = a;
  return id == b.id && rank == b.rank && size == b.size && came == b.came && joined == b.joined &&
         age_ms == b.age_ms && members == b.members && refused == b.refused;
}
bool same(const wire::SequenceNoticeMessage& a, const wire::SequenceNoticeMessage& b) {
  const auto& [set, sequence, number] = a;
  return set == b.process_set && sequence == b.sequence && number == b.number;
}
bool same(const wire::SequenceInquiryMessage& a, const wire::SequenceInquiryMessage& b) {
  const auto& [id, set, sequence, number, wants_places] = a;
  return id == b.id && set == b.process_set && sequence == b.sequence && number == b.number &&
         wants_places == b.wants_places;
}
bool same(const wire::SequenceAnswerMessage& a, const wire::SequenceAnswerMessage& b) {
  const auto& [id, rank, has_made, name, call, place, operations] = a;
  return id == b.id && rank == b.rank && has_made == b.has_made && name == b.name && call == b.call &&
         place == b.place &&
         std::ranges::equal(operations, b.operations, [](const auto& one, const auto& other) {
           return one.process_set == other.process_set && one.name == other.name;
         });
}
bool same(const wire::SenderQuestionMessage& a, const wire::SenderQuestionMessage& b) {
  const auto& [id, receiver, set, name] = a;
  return id == b.id && receiver == b.receiver && set == b.process_set && name == b.name;
}
bool same(const wire::SenderAnswerMessage& a, const wire::SenderAnswerMessage& b) {
  const auto& [id, receiver, sender, set, name, seen] = a;
  return id == b.id && receiver == b.receiver && sender == b.sender && set == b.process_set &&
         name == b.name && seen == b.seen;
}
bool same(const wire::HeardMessage&, const wire::HeardMessage&) { return true; }
bool same(const wire::LookMessage&, const wire::LookMessage&) { return true; }
bool same(const wire::FiguresMessage& a, const wire::FiguresMessage& b) { return a.figures == b.figures; }
bool same(const wire::Message& a, const wire::Message& b) {
  return a.index() == b.index() &&
         std::visit([&](const auto& held) { return same(held, std::get<std::decay_t<decltype(held)>>(b)); },
                    a);
}

std::vector<std::byte> bytes_of(const wire::Message& message) {
  std::vector<std::byte> out;
  wire::encode(message, out);
  return out;
}

/// Returns "" if the message comes back unchanged.
std::string what_went_wrong(const wire::Message& message) {
  const auto back = wire::decode(bytes_of(message));
  if (!back) return back.status().message();
  return same(message, *back) ? "" : "another message came back";
}

}  // namespace

TEST_CASE("every message comes back from its bytes as it was, whatever it holds") {
  const unsigned seed = GENERATE(range(0U, 40U));
  Random random(seed);
  for (std::size_t kind = 0; kind < std::variant_size_v<wire::Message>; ++kind) {
    CAPTURE(seed, kind);
    for (int i = 0; i < 10; ++i) {
      const wire::Message message = any_message(random, kind);
      const std::string wrong = what_went_wrong(message);
      REQUIRE(wrong == "");
    }
  }
}

TEST_CASE("the shortest group, report, join and batch there can be are read, however many there are") {
  for (const std::size_t count : {1, 2, 3, 100, 1000}) {
    CAPTURE(count);
    Request request;
    request.tensors.resize(count);
    wire::ReadyMessage ready;
    ready.reports.resize(count, {{{std::make_shared<const Request>(), {}}}, 0, false});
    ready.reports.front().variants.front().request = std::make_shared<const Request>(request);
    CHECK(what_went_wrong(ready) == "");
    ready.reports.resize(1);
    ready.reports.front().variants.resize(count, {std::make_shared<const Request>(), {}});
    ready.joins.resize(count);
    ready.joins.front().not_served.resize(count);
    CHECK(what_went_wrong(ready) == "");
    wire::Order learned;
    learned.kind = wire::Order::Kind::learned;
    learned.batches.resize(count);
    CHECK(what_went_wrong(wire::OrdersMessage{{learned}}) == "");
    wire::AnswerMessage answer;
    answer.sets.resize(count);
    answer.signatures.resize(count);
    answer.instead.resize(count);
    CHECK(what_went_wrong(answer) == "");
  }
}

TEST_CASE("a list that claims more elements than bytes are left is refused before memory is taken for it") {
  wire::ReadyMessage ready;
  ready.joins.resize(1);
  auto bytes = bytes_of(ready);
  // two empty lists follow
  const std::size_t count_at = bytes.size() - 3 - sizeof(ProcessSetId) - sizeof(Rank);
  REQUIRE(bytes[count_at] == std::byte{1});
  bytes[count_at] = std::byte{2};
  CHECK_FALSE(wire::decode(bytes));
}

TEST_CASE("a message that stands for more slots or orders than there can be is refused") {
  const std::vector<std::byte> empty = bytes_of(wire::ReadyMessage{});
  // The list of slots begins after the kind and the varint `seen`: its form, then the slots.
  const auto with_slots = [&](std::vector<int> slots) {
    std::vector<std::byte> bytes(empty.begin(), empty.begin() + 2);
    for (const int byte : slots) bytes.push_back(static_cast<std::byte>(byte));
    bytes.insert(bytes.end(), empty.begin() + 4, empty.end());
    return bytes;
  };
  CHECK(wire::decode(with_slots({0, 1, 5, 3})));
  CHECK_FALSE(wire::decode(with_slots({0, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f})));  // 2^32 - 1 from 5 on
  // 3 * 2^20 twice: each is possible, but not both together.
  CHECK(wire::decode(with_slots({0, 1, 5, 0x80, 0x80, 0xc0, 0x01})));
  CHECK_FALSE(wire::decode(with_slots({0, 2, 5, 0x80, 0x80, 0xc0, 0x01, 5, 0x80, 0x80, 0xc0, 0x01})));
  // Slots beyond the last possible number: a run, and a bitmap.
  const std::vector<int> last = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  std::vector<int> run = {0, 1}, bitmap = {1};
  run.insert(run.end(), last.begin(), last.end());
  run.push_back(2);
  CHECK_FALSE(wire::decode(with_slots(run)));
  bitmap.insert(bitmap.end(), last.begin(), last.end());
  bitmap.insert(bitmap.end(), {1, 0xff});
  CHECK_FALSE(wire::decode(with_slots(bitmap)));
  // A bitmap of more slots than there can be.
  std::vector<int> wide = {1, 0, 0x81, 0x80, 0x20};  // 2^19 + 1 bytes, from slot 0 on
  wide.insert(wide.end(), (1 << 19) + 1, 0xff);
  CHECK_FALSE(wire::decode(with_slots(wide)));
  wide = {1, 0, 0x80, 0x80, 0x20};
  wide.insert(wide.end(), 1 << 19, 0xff);
  CHECK(wire::decode(with_slots(wide)));
}

}  // namespace dabke::test
