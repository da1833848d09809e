// Checks that a function of ours and one of a real header are the same to a compiler. They must have
// equally many parameters, each passed in the same way, and the same kind of result.
#pragma once

#include <string_view>
#include <type_traits>

namespace dabke::test {

template <class A, class B>
constexpr bool is_passed_alike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
  } else {
    return sizeof(A) == sizeof(B) &&
           (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
  }
}

template <class A, class B>
struct Alike : std::false_type {};
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct Alike<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<is_passed_alike<A, B>() && (is_passed_alike<As, Bs>() && ...)> {
};

}  // namespace dabke::test
