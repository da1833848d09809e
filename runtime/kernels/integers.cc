#include "runtime/kernels/integers.h"

#include <cassert>
#include <cstring>

#include "runtime/kernels/integer_scale.h"

namespace dabke::kernels {
namespace {

/// At any alignment.
template <class T>
T load(const void* from, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(T value, void* into, std::size_t i) {
  std::memcpy(static_cast<std::byte*>(into) + i * sizeof(T), &value, sizeof(T));
}

template <class T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// Calls `visitor` with the C++ type of an integer dtype.
template <class Visitor>
void visit_integers(DType dtype, Visitor visitor) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (kIsInteger<T>) {
      visitor(type);
    } else {
      assert(false && "this is about integers");
    }
  });
}

}  // namespace

void scale_integers(DType dtype, void* into, DType from_dtype, const void* from, std::size_t elements,
                    const Scale& scale) {
  const IntegerScale apply(scale);
  visit_integers(dtype, [&]<class T>(std::type_identity<T>) {
    visit_integers(from_dtype, [&]<class Wide>(std::type_identity<Wide>) {
      if constexpr (dtype_of<Wide> == dtype_of<T> || dtype_of<Wide> == wide_dtype(dtype_of<T>)) {
        for (std::size_t i = 0; i < elements; ++i)
          store(apply.template apply<T>(load<Wide>(from, i)), into, i);
      } else {
        assert(false && "nothing else is made narrow");
      }
    });
  });
}

void widen_integers(DType dtype, void* into, const void* from, std::size_t elements) {
  visit_integers(dtype, [&]<class T>(std::type_identity<T>) {
    visit_dtype(wide_dtype(dtype_of<T>), [&]<class Wide>(std::type_identity<Wide>) {
      if constexpr (kIsInteger<Wide>) {
        for (std::size_t i = 0; i < elements; ++i) store(static_cast<Wide>(load<T>(from, i)), into, i);
      }
    });
  });
}

}  // namespace dabke::kernels
