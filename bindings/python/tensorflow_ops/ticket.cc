#include "bindings/python/tensorflow_ops/ticket.h"

namespace dabke::python::tensorflow {
namespace {

/// The memory of a ticket's tensor, aligned as TensorFlow wants it: what is not, it copies. TensorFlow reads
/// the number.
struct alignas(64) Ticket {
  std::int64_t number;  // its own address, which a copy of the tensor's elements does not have
  std::shared_ptr<Operation> operation;
};

void delete_ticket(void* data, std::size_t, void*) { delete static_cast<Ticket*>(data); }

}  // namespace

Tensor make_ticket(std::shared_ptr<Operation> operation) {
  auto* const ticket = new Ticket{0, std::move(operation)};
  ticket->number = reinterpret_cast<std::int64_t>(ticket);
  return Tensor(
      tf().TF_NewTensor(TF_INT64, nullptr, 0, ticket, sizeof ticket->number, &delete_ticket, nullptr));
}

std::shared_ptr<Operation> operation_of(const TF_Tensor* ticket) {
  const auto* const data = static_cast<const std::int64_t*>(tf().TF_TensorData(ticket));
  if (data == nullptr || *data != reinterpret_cast<std::int64_t>(data)) return nullptr;
  return reinterpret_cast<const Ticket*>(data)->operation;
}

}  // namespace dabke::python::tensorflow
