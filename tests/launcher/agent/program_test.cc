#include "launcher/agent/program.h"

#include <catch2/catch.hpp>

namespace dabke {

TEST_CASE("a name is looked up in PATH and a path is taken as it is") {
  CHECK(find_program("sh", "/nowhere:/bin").path == "/bin/sh");
  CHECK(find_program("/bin/sh", "").path == "/bin/sh");
}

TEST_CASE("what cannot be run has the exit code of a shell and a reason") {
  const ProgramSearch missing = find_program("no-such-program", "/bin:/usr/bin");
  CHECK(missing.path.empty());
  CHECK(missing.exit_code == 127);
  CHECK(missing.message ==
        "cannot run 'no-such-program': no such program in PATH; check its name or give its path");

  const ProgramSearch no_file = find_program("./no-such-program", "/bin");
  CHECK(no_file.exit_code == 127);
  CHECK(no_file.message == "cannot run './no-such-program': no such file; check the path");

  const ProgramSearch directory = find_program("/usr", "");
  CHECK(directory.exit_code == 126);
  CHECK(directory.message == "cannot run '/usr': it is a directory");

  const ProgramSearch data = find_program("/etc/passwd", "");
  CHECK(data.exit_code == 126);
  CHECK_THAT(data.message, Catch::StartsWith("cannot run '/etc/passwd': it is not executable"));

  CHECK(find_program("", "/bin").exit_code == 127);
}

}  // namespace dabke
