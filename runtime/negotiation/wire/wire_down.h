// The bytes of orders.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/negotiation/wire/wire_requests.h"

namespace dabke::wire {

template <class Archive, Is<LearnedBatch> B>
void fields(Archive& archive, B& batch) {
  archive(batch.hold_us);
  slots(archive, batch.slots);
}

template <class Archive, Is<TimelineChange> C>
void fields(Archive& archive, C& change) {
  archive(change.starts);
  archive(change.marks_cycles);
  archive(change.path);
}

template <class Archive, Is<Order> O>
void fields(Archive& archive, O& order) {
  archive(order.number);
  checked_enum(archive, order.kind, static_cast<std::uint64_t>(Order::Kind::change), "order");
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
  if (order.kind == Order::Kind::timeline) {
    archive(order.starts);
    archive(order.marks_cycles);
  }
  if (order.kind == Order::Kind::change) archive(order.changes);
  if constexpr (Archive::kReading) {
    if (order.kind == Order::Kind::error && !order.request) archive.fail("an error without a name");
    if (order.kind == Order::Kind::run && !order.request && order.slot == kNoSlot) {
      archive.fail("an order of nothing");
    }
  }
}

enum OrderForm : std::uint8_t { kCachedRun, kFull, kEnd };

/// True if `next` continues a run of cached orders that ends with `before`.
inline bool continues(const Order& before, const Order& next, std::uint32_t batch_step) {
  return is_plain_cached(next) && next.number == before.number + 1 && next.slot == before.slot + 1 &&
         next.batch == before.batch + batch_step;
}

inline void orders(Writer& archive, const std::vector<Order>& all) {
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

inline void orders(Reader& archive, std::vector<Order>& all) {
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
      if (length > cached_left) return archive.fail("too many cached orders");
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

template <class Archive, Is<TimelineMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.from);
  fields(archive, message.change);
}

template <class Archive, Is<LookMessage> M>
void fields(Archive&, M&) {}

template <class Archive, Is<OrdersMessage> M>
void fields(Archive& archive, M& message) {
  orders(archive, message.orders);
}

}  // namespace dabke::wire
