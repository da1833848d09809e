// The timeline's page as one file that asks no host for anything.
#pragma once

#include <string>
#include <string_view>

namespace dabke::timeline {

/// With marks where page_of_server() and page_with() put what is theirs (bundle_page.py).
std::string_view bundled_page();

/// Fetches ./trace and ./report from where it comes from. `name` is the trace's, for people.
std::string page_of_server(std::string_view name);

/// Has both in it. `trace`: compressed by gzip; `report`: JSON.
std::string page_with(std::string_view name, std::string_view trace, std::string_view report);

}  // namespace dabke::timeline
