#include "timeline_viewer/page.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace dabke::viewer {
namespace {

std::string attribute(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

/// Escapes `<`, so that no name in the JSON can begin markup.
std::string in_script(std::string_view json) {
  std::string escaped;
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kLetters[three >> (18 - 6 * k) & 63];
  }
  return text;
}

void replace(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

std::string name_mark(std::string_view name) {
  return fmt::format("<meta name=\"dabke-name\" content=\"{}\">\n", attribute(name));
}

std::string page(std::string_view connect, std::string_view data) {
  std::string page(bundled_page());
  replace(page, "@CONNECT@", connect);
  replace(page, "@DATA@", data);
  return page;
}

}  // namespace

std::string page_of_server(std::span<const std::string> names) {
  std::string data = R"(<meta name="dabke-source" content="server">)";
  for (const std::string& name : names) data += "\n" + name_mark(name);
  return page("'self'", data);
}

std::string page_with(std::span<const PageTrace> traces, std::string_view reports) {
  std::string data;
  for (const PageTrace& trace : traces) {
    data += name_mark(trace.name);
    data +=
        fmt::format("<script type=\"text/plain\" class=\"dabke-trace\">{}</script>\n", base64(trace.bytes));
  }
  data +=
      fmt::format("<script type=\"application/json\" id=\"dabke-reports\">{}</script>", in_script(reports));
  return page("'none'", data);
}

}  // namespace dabke::viewer
