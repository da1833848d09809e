// The timeline's page as one file that asks no host for anything.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dabke::viewer {

/// With marks where page_of_server() and page_with() put what is theirs (bundle_page.py).
std::string_view bundled_page();

/// A trace that a page has in it.
struct PageTrace {
  std::string name;   // for people
  std::string bytes;  // compressed by gzip
};

/// Fetches ./trace/0, ./trace/1 and so on, and ./reports, from where it comes from. `names` are the traces', for people.
std::string page_of_server(std::span<const std::string> names);

/// Has all in it. `reports`: a JSON array of one report for all traces, or one for each.
std::string page_with(std::span<const PageTrace> traces, std::string_view reports);

}  // namespace dabke::viewer
