// A list whose first element needs no memory of its own, because nearly every call of a collective has one
// tensor.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace dabke {

/// The part of std::vector that this project needs. T is default-constructible.
template <class T>
class OneOrMany {
 public:
  using value_type = T;

  OneOrMany() = default;
  OneOrMany(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }

  void push_back(T item) {
    if (size_ == 0) {
      one_ = std::move(item);
    } else {
      if (size_ == 1) many_.push_back(std::exchange(one_, {}));
      many_.push_back(std::move(item));
    }
    ++size_;
  }
  template <class Iterator>
  void append(Iterator first, Iterator last) {
    for (; first != last; ++first) push_back(*first);
  }
  void resize(std::size_t size) {
    if (size > 1) {
      many_.resize(size);
      if (size_ == 1) many_.front() = std::exchange(one_, {});
    } else {
      if (size_ > 1 && size == 1) one_ = std::move(many_.front());
      if (size == 0) one_ = {};
      many_.clear();
    }
    size_ = size;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ > 1 ? many_.data() : &one_; }
  const T* data() const { return size_ > 1 ? many_.data() : &one_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return *data(); }
  const T& front() const { return *data(); }

  friend bool operator==(const OneOrMany& a, const OneOrMany& b) {
    return a.size_ == b.size_ && a.one_ == b.one_ && a.many_ == b.many_;
  }

 private:
  std::size_t size_ = 0;
  T one_{};              // used if there is one element
  std::vector<T> many_;  // used if there are more
};

}  // namespace dabke
