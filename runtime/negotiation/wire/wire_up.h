// The bytes of messages that go up: reports and joins, and a rank's goodbye.
#pragma once

#include "runtime/negotiation/wire/wire_requests.h"

namespace dabke::wire {

template <class Archive, Is<RequestVariant> V>
void fields(Archive& archive, V& variant) {
  request_ref(archive, variant.request);
  list(archive, variant.ranks);
}

template <class Archive, Is<Report> R>
void fields(Archive& archive, R& report) {
  list(archive, report.variants);
  archive(report.contributors);
  archive(report.root_absent);
  list(archive, report.joined);
  if constexpr (Archive::kReading) {
    if (report.variants.empty()) archive.fail("a report of nothing");
  }
}

template <class Archive, Is<NotServed> N>
void fields(Archive& archive, N& one) {
  checked_enum(archive, one.type, static_cast<std::uint64_t>(kLast<DeviceType>), "device type");
  archive(one.rank);
}

template <class Archive, Is<JoinReport> J>
void fields(Archive& archive, J& join) {
  archive(join.process_set);
  archive(join.last);
  list(archive, join.unfinished);
  list(archive, join.not_served);
}

template <class Archive, Is<ReadyMessage> M>
void fields(Archive& archive, M& message) {
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
}

template <class Archive, Is<FiguresMessage> M>
void fields(Archive& archive, M& message) {
  auto& figures = message.figures;
  archive(figures.rank);
  archive(figures.steps);
  archive(figures.step);
  archive(figures.step_us);
  archive(figures.bytes);
  archive(figures.batches);
  archive(figures.pending);
  checked_enum(archive, figures.state, static_cast<std::uint64_t>(RankFigures::State::idle), "state");
  archive(figures.state_ms);
  archive(figures.what);
}

template <class Archive, Is<GoodbyeMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.rank);
}

}  // namespace dabke::wire
