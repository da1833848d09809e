#include "launcher/process/interpreter.h"

#include <fstream>

#include <catch2/catch.hpp>

#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
using namespace launcher;
namespace {

std::string trouble_with(const std::string& text) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/script";
  std::ofstream(path, std::ios::binary) << text;
  std::string trouble = interpreter_trouble(path, "/usr/bin:/bin");
  const auto at = trouble.find(path);
  return at == std::string::npos ? trouble : trouble.replace(at, path.size(), "PATH");
}

}  // namespace

TEST_CASE("a first line whose interpreter is there is no trouble, and what is not a script neither") {
  for (const char* const text :
       {"#!/bin/sh\n", "#! /bin/sh -e\n", "#!/bin/sh", "#!/usr/bin/env sh\n", "#!/usr/bin/env -S sh -e\n",
        "#!/usr/bin/env -S A=1 sh -e\n", "#!/usr/bin/env -i sh\n",
        "\x7f"
        "ELF",
        "", "#!", "#!\n", "print(1)\r\n"}) {
    INFO(text);
    CHECK(trouble_with(text).empty());
  }
}

TEST_CASE("an interpreter that is not there is named, also the one that env looks for") {
  CHECK(trouble_with("#!/no/such/interpreter -u\n") ==
        "its first line names the interpreter '/no/such/interpreter', which does not exist; install it or "
        "correct "
        "that line");
  CHECK(trouble_with("#!/usr/bin/env no-such-python\n") ==
        "its first line names the interpreter 'no-such-python', which is not in PATH; install it or correct "
        "that "
        "line");
  CHECK(trouble_with("#!/usr/bin/env sh -e\n") ==
        "its first line makes env search for a program 'sh -e', spaces included; write #!/usr/bin/env -S sh "
        "-e");
}

TEST_CASE("a script with lines as Windows ends them is told so, with the command that converts it") {
  const std::string trouble =
      "its lines end in CRLF, as Windows writes them, so its interpreter is not found; convert it: sed -i "
      "'s/\\r$//' PATH";
  CHECK(trouble_with("#!/bin/sh\r\necho\r\n") == trouble);
  CHECK(trouble_with("#!/usr/bin/env sh\r\n") == trouble);
}

}  // namespace dabke::test
