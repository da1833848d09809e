#include "bindings/python/core/text.h"

#include <cstring>

namespace dabke::python {
namespace {

/// The text in ASCII, with quotes.
std::string escaped(nb::handle text) {
  const nb::object ascii = nb::steal(PyObject_ASCII(text.ptr()));
  if (!ascii.is_valid()) nb::raise_python_error();
  return nb::cast<nb::str>(ascii).c_str();
}

}  // namespace

const char* utf8_of(nb::str text, std::string_view what) {
  Py_ssize_t length = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
  if (utf8 == nullptr) {
    PyErr_Clear();
    throw ArgumentError(
        std::string(what) + " is " + escaped(text) +
        ", which has no UTF-8 form; a string from outside must be decoded without surrogates");
  }
  if (std::memchr(utf8, '\0', static_cast<std::size_t>(length)) != nullptr) {
    throw ArgumentError(std::string(what) + " is " + escaped(text) + "; it must not contain a NUL character");
  }
  return utf8;
}

std::vector<const char*> all_utf8_of(nb::list texts, std::string_view what) {
  std::vector<const char*> all;
  all.reserve(texts.size() + 1);
  for (const nb::handle text : texts) {
    if (!nb::isinstance<nb::str>(text)) {
      throw nb::type_error(
          (std::string(what) + " is a " + Py_TYPE(text.ptr())->tp_name + ", not a str").c_str());
    }
    all.push_back(utf8_of(nb::borrow<nb::str>(text), what));
  }
  all.push_back(nullptr);
  return all;
}

std::string shown(nb::str text) {
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) nb::raise_python_error();
  std::string out(PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
  for (std::size_t at = out.find('\0'); at != std::string::npos; at = out.find('\0', at))
    out.replace(at, 1, "\\0");
  return out;
}

}  // namespace dabke::python
