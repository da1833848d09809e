// What a collective does to its tensors: the one description of a call, and the one list of its fields.
//
// A Request holds what a rank has asked for, a Batch what runs. What travels, when two calls are equal, what the
// text of a mismatch says and which tensors may share a batch all come from the list, so a new attribute of a
// call is a field, a row, its option in the APIs, and whatever acts on it.
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
  double prescale = 1;   // every input element is multiplied by this before it is reduced
  double postscale = 1;  // and every output element by this after
  Rank root = 0;         // as asked, a rank of the world; as it runs, one of the set
  Compression compression = Compression::none;
  DeviceRoute device_route = DeviceRoute::device;  // counts on devices; every rank says what it was told

  /// In every field that counts for the collective.
  friend bool operator==(const CallSpec& a, const CallSpec& b);
};

/// What a description of a call shows of a field, with a place for its value.
struct FieldText {
  enum class Where : std::uint8_t { nowhere, before_tensors, after_tensors };
  Where where = Where::nowhere;  // after the tensors only where the value is not the default
  std::string_view text = {};
};

/// A row of the list.
template <class T>
struct CallField {
  T CallSpec::*value;
  std::string_view name;           // in which two ranks differ: "root rank"
  bool (*counts)(CollectiveKind);  // for which collectives
  FieldText text = {};
  bool is_each_tensors = false;  // a Request has one for each tensor: see TensorSpec
};
template <class T>  // clang before 17 deduces nothing from an aggregate
CallField(T CallSpec::*, std::string_view, bool (*)(CollectiveKind), FieldText = {}, bool = false)
    ->CallField<T>;

// clang-format off
inline constexpr auto kCallFields = std::tuple{
    CallField{&CallSpec::kind,        "operation",        [](CollectiveKind) { return true; }},
    CallField{&CallSpec::dtype,       "dtype",            moves_data, {}, true},
    CallField{&CallSpec::device_type, "device",           moves_data, {FieldText::Where::after_tensors, " on {}"}},
    CallField{&CallSpec::device_route, "DABKE_GPU_OPERATIONS", moves_data, {FieldText::Where::after_tensors, ", device route {}"}},
    CallField{&CallSpec::op,          "reduce operation", reduces, {FieldText::Where::before_tensors, " ({})"}},
    CallField{&CallSpec::prescale,    "scale factor",     reduces, {FieldText::Where::after_tensors, ", prescale {}"}},
    CallField{&CallSpec::postscale,   "scale factor",     reduces, {FieldText::Where::after_tensors, ", postscale {}"}},
    CallField{&CallSpec::root,        "root rank",        has_root, {FieldText::Where::before_tensors, " from rank {}"}},
    CallField{&CallSpec::compression, "compression",      moves_data, {FieldText::Where::after_tensors, ", compression {}"}},
};
// clang-format on

/// Calls `visit` with each row, in order.
template <class Visitor>
constexpr void for_each_call_field(Visitor&& visit) {
  std::apply([&](const auto&... rows) { (visit(rows), ...); }, kCallFields);
}

/// Whether they make the same of the data: a factor that is not a number does what another such does, and 0.0 and -0.0 give
/// zeros of different signs.
template <class T>
constexpr bool is_same_value(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return std::isnan(b);
    if (a == 0 && std::signbit(a) != std::signbit(b)) return false;
  }
  return a == b;
}

/// Whether the two agree in it, or it does not count for `a`'s collective.
template <class T>
constexpr bool agree(const CallSpec& a, const CallSpec& b, const CallField<T>& field) {
  return !field.counts(a.kind) || is_same_value(a.*field.value, b.*field.value);
}

inline bool operator==(const CallSpec& a, const CallSpec& b) {
  return std::apply([&](const auto&... rows) { return (agree(a, b, rows) && ...); }, kCallFields);
}

/// The name of the first field in which two calls differ, but for what each tensor has of its own; empty when
/// they agree.
std::string_view difference(const CallSpec& a, const CallSpec& b);

/// What the list shows of a call there: " (average)", ", prescale 0.5 on cuda".
std::string describe(const CallSpec& call, FieldText::Where where);

}  // namespace dabke
