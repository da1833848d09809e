#include "launcher/process/program.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
using namespace launcher;

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

TEST_CASE("a script that is not executable is refused with the command that runs it") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/train.py";
  std::ofstream(script) << "print(1)\n";
  const ProgramSearch by_path = find_program(script, "/bin");
  CHECK(by_path.exit_code == 126);
  CHECK(by_path.message ==
        "cannot run '" + script + "': it is not executable; did you mean python " + script + "?");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  const ProgramSearch by_name = find_program("train.py", "/bin");
  std::filesystem::current_path(before);
  CHECK(by_name.exit_code == 127);
  CHECK(by_name.message == "cannot run 'train.py': no such program in PATH; did you mean python train.py?");
}

TEST_CASE("a script whose interpreter is missing counts as not found") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/train";
  std::ofstream(script) << "#!/no/such/python -u\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const ProgramSearch found = find_program("train", directory.path());
  CHECK(found.path.empty());
  CHECK(found.exit_code == 127);
  CHECK(found.message ==
        "cannot run 'train': " + script +
            ": its first line names the interpreter '/no/such/python', which does not exist; "
            "install it or correct that line");
}

}  // namespace dabke::test
