// The ticket of an operation: what the op that submits gives to the op that waits.
#pragma once

#include <memory>

#include "bindings/python/tensorflow_ops/operation.h"
#include "bindings/python/tensorflow_ops/owned.h"

namespace dabke::python::tensorflow {

/// A scalar int64 tensor that refers to the operation. Where the wait never comes, such as in a step that has
/// failed, the end of the tensor ends the reference.
Tensor make_ticket(std::shared_ptr<Operation> operation);

/// The operation of a ticket; null for any other tensor, also a copy of one.
std::shared_ptr<Operation> operation_of(const TF_Tensor* ticket);

}  // namespace dabke::python::tensorflow
