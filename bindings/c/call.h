// A call of a collective as the C API takes it, and its way into the runtime: what all entry points share.
#pragma once

#include <cstddef>
#include <span>

#include "dabke/dabke.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"

namespace dabke {

/// The arguments of any collective. They are the caller's, and live as long as the entry point runs.
struct Call {
  CollectiveKind kind;
  std::span<const char* const> names;
  std::span<const DLTensor* const> inputs;
  /// Null, or as many as inputs; each may be null where its size is known.
  const DLTensor* const* outputs = nullptr;
  const dabke_options* options = nullptr;
  bool is_group = false;
};

/// Of one tensor, by the addresses of the entry point's arguments.
inline Call single(CollectiveKind kind, const char* const* name, const DLTensor* const* input,
                   const DLTensor* const* output, const dabke_options* options) {
  return {kind, {name, 1}, {input, 1}, output, options};
}

inline Call grouped(CollectiveKind kind, const char* const* names, const DLTensor* const* inputs,
                    const DLTensor* const* outputs, std::size_t count, const dabke_options* options) {
  return {kind, {names, count}, {inputs, count}, outputs, options, true};
}

inline Call without_tensor(CollectiveKind kind, const dabke_options* options) {
  return {kind, {}, {}, nullptr, options};
}

/// Submits the call, which goes on by itself. What an asynchronous entry point consists of.
dabke_status start_call(const Call& call, dabke_handle** handle);

/// Runs the call to its end; the handle is kept when the caller wants it and all went well. What a blocking
/// entry point consists of.
dabke_status run_call(const Call& call, dabke_handle** handle = nullptr);

/// Tells the other ranks, which may have accepted the call, that this one refuses it, and why.
Status refuse_call(const Call& call, Status why);

}  // namespace dabke
