// A call of a collective as the C API takes it, and the operation that the runtime gets for it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "dabke/dabke.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"
#include "runtime/core/point_to_point.h"
#include "runtime/core/runtime.h"

namespace dabke {

/// The arguments of any collective. The caller owns them; they live as long as the entry point runs.
struct Call {
  CollectiveKind kind;
  std::span<const char* const> names;
  std::span<const DLTensor* const> inputs;
  /// Null, or one for each input; each may be null where its size is known.
  const DLTensor* const* outputs = nullptr;
  const dabke_options* options = nullptr;
  bool is_group = false;
  std::optional<core::Message> message = {};  // for a send or a receive; without the tag
};

/// A call with one tensor. It refers to the entry point's arguments by address.
inline Call single(CollectiveKind kind, const char* const* name, const DLTensor* const* input,
                   const DLTensor* const* output, const dabke_options* options) {
  return {kind, {name, 1}, {input, 1}, output, options};
}

/// One end of a message. The tensor is sent, or received in its place.
inline Call one_end(const core::Message& message, const char* const* name, const DLTensor* const* tensor,
                    const dabke_options* options) {
  Call call = single(CollectiveKind::send_recv, name, tensor, nullptr, options);
  call.message = message;
  return call;
}

inline Call grouped(CollectiveKind kind, const char* const* names, const DLTensor* const* inputs,
                    const DLTensor* const* outputs, std::size_t count, const dabke_options* options) {
  return {kind, {names, count}, {inputs, count}, outputs, options, true};
}

inline Call without_tensor(CollectiveKind kind, const dabke_options* options) {
  return {kind, {}, {}, nullptr, options};
}

/// An error for a group without members.
Status check_group(const Call& call);

/// The options of the call, in the struct of this version of the library.
Result<dabke_options> options_of(const Call& call);

/// Makes the operation of a call. If that fails, the other ranks, which may have accepted the call, get an
/// error too.
Result<OperationRef> make_or_refuse(core::Runtime& runtime, const Call& call, const dabke_options& options);

/// Notifies the other ranks, which may have accepted the call, that this rank refuses it, and why.
Status refuse_call(const Call& call, Status why);

}  // namespace dabke
