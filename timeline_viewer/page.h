// The timeline's page as one file that loads nothing from other hosts.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dabke::viewer {

/// The page with marks, which page_of_server() and page_with() replace by their data (bundle_page.py).
std::string_view bundled_page();

/// A trace that is embedded in a page.
struct PageTrace {
  std::string name;   // for people
  std::string bytes;  // compressed by gzip
};

/// Returns a page that fetches ./trace/0, ./trace/1 and so on, and ./reports, from its server. `names` are
/// the traces' names for people.
std::string page_of_server(std::span<const std::string> names);

/// Returns a page that contains all its data. `reports` is a JSON array with one report for all
/// traces, or one for each.
std::string page_with(std::span<const PageTrace> traces, std::string_view reports);

}  // namespace dabke::viewer
