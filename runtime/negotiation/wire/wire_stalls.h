// The bytes of failures, and of questions and answers: about what takes too long, and about senders.
#pragma once

#include "runtime/negotiation/wire/wire_archive.h"

namespace dabke::wire {

template <class Archive, class S>
void subject(Archive& archive, S& value) {
  checked_enum(archive, value, static_cast<std::uint64_t>(StallSubject::batch), "stalled thing");
}

template <class Archive, Is<FailMessage> M>
void fields(Archive& archive, M& message) {
  checked_enum(archive, message.code, static_cast<std::uint64_t>(Code::internal), "status code");
  archive(message.text);
}

template <class Archive, Is<InquiryMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.everybody);
  subject(archive, message.subject);
  archive(message.process_set);
  archive(message.name);
}

template <class Archive, Is<AnswerMessage> M>
void fields(Archive& archive, M& message) {
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
}

template <class Archive, Is<NoticeMessage> M>
void fields(Archive& archive, M& message) {
  subject(archive, message.subject);
  archive(message.process_set);
  archive(message.number);
  archive(message.name);
  archive(message.age_ms);
  archive(message.suspect);
}

template <class Archive, Is<DumpMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.incident);
  archive(message.asked);
  archive(message.reason);
}

template <class Archive, Is<GroupNoticeMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.process_set);
  archive(message.group);
  archive(message.age_ms);
}

template <class Archive, Is<GroupInquiryMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.process_set);
  archive(message.group);
}

template <class Archive, Is<GroupAnswerMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.rank);
  archive(message.size);
  archive(message.came);
  archive(message.joined);
  archive(message.age_ms);
  list(archive, message.members);
  status(archive, message.refused);
}

template <class Archive, Is<SequenceNoticeMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.process_set);
  archive(message.sequence);
  archive(message.number);
}

template <class Archive, Is<SequenceInquiryMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.process_set);
  archive(message.sequence);
  archive(message.number);
  archive(message.wants_places);
}

template <class Archive, Is<SequenceAnswerMessage::Operation> O>
void fields(Archive& archive, O& operation) {
  archive(operation.process_set);
  archive(operation.name);
}

template <class Archive, Is<SequenceAnswerMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.rank);
  archive(message.has_made);
  archive(message.name);
  archive(message.call);
  archive(message.place);
  list(archive, message.operations);
}

template <class Archive, Is<SenderQuestionMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.receiver);
  archive(message.process_set);
  archive(message.name);
}

template <class Archive, Is<SenderAnswerMessage> M>
void fields(Archive& archive, M& message) {
  archive(message.id);
  archive(message.receiver);
  archive(message.sender);
  archive(message.process_set);
  archive(message.name);
  archive(message.seen);
}

template <class Archive, Is<HeardMessage> M>
void fields(Archive&, M&) {}

}  // namespace dabke::wire
