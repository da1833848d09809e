// The one description of a call, and the one list of its fields.
//
// A Request holds what a rank has requested, and a Batch holds what runs. The list determines what travels,
// when two calls are equal, the text of a mismatch, and which tensors may share a batch. A new attribute of a
// call is therefore a field, a row, its option in the APIs, and the code that acts on it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/tensor.h"
#include "runtime/base/world.h"

namespace dabke {

struct CallSpec {
  CollectiveKind kind = CollectiveKind::allreduce;
  DeviceType device_type = DeviceType::host;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1;   // multiplies every input element before the reduction
  double postscale = 1;  // multiplies every output element after it
  Rank root = 0;         // in a request, a rank of the world; in a run, an index in the set
  Compression compression = Compression::none;
  DeviceRoute device_route = DeviceRoute::device;  // for tensors on devices; as this rank is configured

  /// True if every field that counts for the collective is equal.
  friend bool operator==(const CallSpec& a, const CallSpec& b);
};

/// The text of a field in the description of a call, with a place for its value.
struct FieldText {
  enum class Where : std::uint8_t { nowhere, before_tensors, after_tensors };
  Where where = Where::nowhere;  // after the tensors only if the value is not the default
  std::string_view text = {};
};

/// A row of the list of fields.
template <class T>
struct CallField {
  T CallSpec::*value;
  std::string_view name;           // in the text of a mismatch: "root rank"
  bool (*counts)(CollectiveKind);  // true for the collectives that use the field
  FieldText text = {};
  bool is_each_tensors = false;  // a Request has one per tensor: see TensorSpec
};
template <class T>  // clang before 17 deduces nothing from an aggregate
CallField(T CallSpec::*, std::string_view, bool (*)(CollectiveKind), FieldText = {}, bool = false)
    ->CallField<T>;

inline constexpr auto kCallFields = std::tuple{
    CallField{&CallSpec::kind, "operation", [](CollectiveKind) { return true; }},
    CallField{&CallSpec::dtype, "dtype", moves_data, {}, true},
    CallField{&CallSpec::device_type, "device", moves_data, {FieldText::Where::after_tensors, " on {}"}},
    CallField{&CallSpec::device_route,
              "DABKE_GPU_OPERATIONS",
              moves_data,
              {FieldText::Where::after_tensors, ", device route {}"}},
    CallField{&CallSpec::op, "reduce operation", reduces, {FieldText::Where::before_tensors, " ({})"}},
    CallField{
        &CallSpec::prescale, "scale factor", reduces, {FieldText::Where::after_tensors, ", prescale {}"}},
    CallField{
        &CallSpec::postscale, "scale factor", reduces, {FieldText::Where::after_tensors, ", postscale {}"}},
    CallField{&CallSpec::root, "root rank", has_root, {FieldText::Where::before_tensors, " from rank {}"}},
    CallField{&CallSpec::compression,
              "compression",
              moves_data,
              {FieldText::Where::after_tensors, ", compression {}"}},
};

/// Calls `visit` with each row, in order.
template <class Visitor>
constexpr void for_each_call_field(Visitor&& visit) {
  std::apply([&](const auto&... rows) { (visit(rows), ...); }, kCallFields);
}

/// True if both values have the same effect on the data. All values that are not a number are equal. 0.0 and
/// -0.0 differ, because they give zeros of different signs.
template <class T>
constexpr bool is_same_value(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return std::isnan(b);
    if (a == 0 && std::signbit(a) != std::signbit(b)) return false;
  }
  return a == b;
}

/// True if the two calls agree in the field, or if it does not count for `a`'s collective.
template <class T>
constexpr bool agree(const CallSpec& a, const CallSpec& b, const CallField<T>& field) {
  return !field.counts(a.kind) || is_same_value(a.*field.value, b.*field.value);
}

inline bool operator==(const CallSpec& a, const CallSpec& b) {
  return std::apply([&](const auto&... rows) { return (agree(a, b, rows) && ...); }, kCallFields);
}

/// Returns the name of the first field in which two calls differ, except for fields that each tensor has of
/// its own. Empty if the calls agree.
std::string_view difference(const CallSpec& a, const CallSpec& b);

/// Returns the text of a call's fields at that place: " (average)", ", prescale 0.5 on cuda".
std::string describe(const CallSpec& call, FieldText::Where where);

}  // namespace dabke
