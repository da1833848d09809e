// The output of ranks, as the real dabkerun prints it and writes it into files.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Catch::Matches;
using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
}

}  // namespace

TEST_CASE("each line is prefixed with its rank and stream") {
  const Finished job = run({"-np", "2", "sh", "-c", "echo out; echo err >&2"});
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:out", "[1]<stdout>:out"});
  CHECK(sorted_lines(job.error) == Words{"[0]<stderr>:err", "[1]<stderr>:err"});
  CHECK(run({"-np", "1", "echo", "one"}).out == "[0]<stdout>:one\n");
  CHECK(run({"-np", "1", "--no-prefix", "echo", "one"}).out == "one\n");
}

TEST_CASE("a time goes before the prefix when asked for") {
  const std::string line = run({"-np", "1", "--prefix-output-with-timestamp", "echo", "x"}).out;
  CHECK_THAT(line,
             Catch::Matches("[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4}\\[0\\]<stdout>:x\n"));
}

TEST_CASE("lines of chatty ranks are complete, in order and not torn, also when both streams are one pipe") {
  const bool one_output = GENERATE(false, true);
  const std::string pty = GENERATE("--pty", "--no-pty");
  constexpr int kLines = 3000;
  const Finished job =
      run({pty, "-np", "2", kWorker, "chatter", std::to_string(kLines)}, {.one_output = one_output});
  CHECK(job.exit_code == 0);
  std::array<int, 2> next{0, 0};
  bool good = true;
  for (const std::string& line : lines_of(job.out)) {
    if (line.find("<stderr>:rank ") == 3) continue;
    const int rank = line[1] - '0';
    int& i = next.at(static_cast<std::size_t>(rank));
    const std::string expected =
        "[" + std::to_string(rank) + "]<stdout>:rank " + std::to_string(rank) + " line " + std::to_string(i) +
        " " + std::string(static_cast<std::size_t>(i * 37 % 301), static_cast<char>('a' + rank));
    ++i;
    if (good) CHECK(line == expected);
    good = good && line == expected;
  }
  CHECK(next == std::array<int, 2>{kLines, kLines});
}

TEST_CASE("bytes pass unchanged, and a last line without newline is completed") {
  CHECK(run({"-np", "1", "printf", "a\\377\\200b\\nlast"}).out ==
        "[0]<stdout>:a\xff\x80"
        "b\n[0]<stdout>:last\n");
  CHECK(run({"-np", "1", "printf", "1%%\\r2%%\\rdone\\n"}).out ==
        "[0]<stdout>:1%\r[0]<stdout>:2%\r[0]<stdout>:done\n");
  CHECK(run({"-np", "1", "printf", "a\\r\\nb\\r\\n"}).out == "[0]<stdout>:a\r\n[0]<stdout>:b\r\n");
}

TEST_CASE("a very long line is split at 1 MiB and loses nothing") {
  constexpr std::size_t kMiB = 1 << 20;
  const Finished job = run({"-np", "1", kWorker, "long", std::to_string(5 * kMiB / 2)});
  const auto lines = lines_of(job.out);
  REQUIRE(lines.size() == 3);
  const std::string prefix = "[0]<stdout>:";
  CHECK((lines[0] == prefix + std::string(kMiB, 'x') && lines[1] == lines[0]));
  CHECK(lines[2] == prefix + std::string(kMiB / 2, 'x'));
}

TEST_CASE(
    "without prefixes bytes come out as the rank has written them: long lines whole, last lines without a "
    "newline") {
  CHECK(run({"-np", "1", "--no-prefix", "printf", "a\\r\\nb\\rlast"}).out == "a\r\nb\rlast");
  constexpr std::size_t kSize = (5 << 20) / 2;
  const Finished job = run({"-np", "1", "--no-prefix", kWorker, "long", std::to_string(kSize)});
  std::string wanted(kSize, 'x');
  wanted.push_back('\n');  // g++ 12 warns of operator+ here, under ThreadSanitizer
  CHECK((job.out == wanted));
  const Finished failed =
      run({"-np", "1", "--no-prefix", "sh", "-c", "printf last; exit 3"}, {.one_output = true});
  CHECK_THAT(failed.out, StartsWith("last\ndabkerun: "));
}

TEST_CASE("--output-filename also keeps what each rank printed, without prefixes") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "11", "--output-filename", directory.path() + "/new/logs", "sh", "-c",
                            "printf \"out $DABKE_RANK\"; echo err >&2"});
  CHECK(job.exit_code == 0);
  CHECK(lines_of(job.out).size() == 11);
  CHECK(directory.text_of("new/logs/rank.00/stdout") == "out 0");
  CHECK(directory.text_of("new/logs/rank.10/stdout") == "out 10");
  CHECK(directory.text_of("new/logs/rank.10/stderr") == "err\n");
  CHECK(run({"-np", "1", "--output-filename", directory.path(), "echo", "x"}).exit_code == 0);
  CHECK(directory.text_of("rank.0/stdout") == "x\n");
}

TEST_CASE("--output-filename has the descriptors up to the hard limit") {
  const TemporaryDirectory directory;
  const Finished job = LauncherRun({"-c", "ulimit -Sn 24; exec \"$0\" -np 16 --output-filename \"$1\" echo x",
                                    DABKERUN, directory.path()},
                                   {.program = "bash"})
                           .finish();
  CHECK(job.exit_code == 0);
  CHECK(directory.text_of("rank.15/stdout") == "x\n");
}

TEST_CASE("a rank's terminal passes all bytes unchanged, and says them to the files, too") {
  const TemporaryDirectory directory;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  std::ofstream(directory.path() + "/bytes", std::ios::binary) << bytes;
  const Finished job = run({"-np", "1", "--pty", "--no-prefix", "--output-filename", directory.path(), "cat",
                            directory.path() + "/bytes"});
  CHECK(job.out == bytes);
  CHECK(directory.text_of("rank.0/stdout") == bytes);
}

TEST_CASE("what is in a rank's terminal when the rank has ended is not lost, whoever reads it") {
  const bool is_elsewhere = GENERATE(false, true);
  const TemporaryDirectory directory;
  Words words{
      "--pty",
      "--no-prefix",
      "-H",
      is_elsewhere ? "one.invalid:1" : "localhost:1",
      "sh",
      "-c",
      "echo $$ >\"$0/new\"; mv \"$0/new\" \"$0/pid\"; while ! test -e \"$0/go\"; do sleep 0.01; done; "
      "printf %03000d 7",
      directory.path()};
  words.insert(words.begin(), {"--remote-shell", make_remote_shell(directory)});
  LauncherRun launcher(words);
  const pid_t rank = directory.pid_in("pid");
  const pid_t agent = parent_of(parent_of(rank));
  const pid_t reader = is_elsewhere ? agent : launcher.pid();
  send_signal(reader, SIGSTOP);
  std::ofstream(directory.path() + "/go") << "now";
  CHECK(is_gone_within(rank, kLongest));
  send_signal(reader, SIGCONT);
  const Finished job = launcher.finish();
  std::string wanted(2999, '0');
  wanted.push_back('7');
  CHECK((job.out == wanted));
  CHECK(job.exit_code == 0);
}

TEST_CASE("what a rank's own pipeline still prints after its end is not lost") {
  const std::string pty = GENERATE("--pty", "--no-pty");
  // The pipeline prints after its shell has ended and dabkerun has noticed that. The pipeline survives the
  // signal that ends a rank's remaining processes.
  const Finished job =
      run({pty, "-np", "1", "--no-prefix", "--grace-period", "60", "sh", "-c",
           "trap '' TERM; (while kill -0 $$; do sleep 0.01; done 2>/dev/null; echo late) & echo early"});
  CHECK(job.out == "early\nlate\n");
  CHECK(job.exit_code == 0);
}

TEST_CASE("when nobody reads stdout any more the job ends") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "sleep", directory.path()});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.close_output();
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGPIPE);
  CHECK_THAT(job.error, Contains("stdout is closed"));
  for (const char* rank : {"0", "1"}) CHECK(is_gone(directory.pid_in(rank)));
  CHECK(job.took < kPatience);
}

TEST_CASE("a job that never prints does not need a reader") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "quiet", directory.path()});
  launcher.close_output();
  directory.pid_in("0");
  directory.pid_in("1");
  std::ofstream(directory.path() + "/go") << "now";
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(job.error.empty());
}

TEST_CASE("a copy of the output that could not be written is told by name, and fails the job") {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() + "/rank.0");
  std::filesystem::create_symlink("/dev/full", directory.path() + "/rank.0/stdout");
  const Finished job =
      run({"-np", "1", "--no-prefix", "--output-filename", directory.path(), "echo", "something"});
  CHECK(job.exit_code == 1);
  CHECK(job.out == "something\n");
  CHECK(job.error ==
        "dabkerun: cannot write the output file of rank 0's stdout: No space left on device; the rest is "
        "only on the console\ndabkerun: --output-filename: the files of rank 0 are incomplete: No space left "
        "on device\n");
}

TEST_CASE("a time without a prefix is set off from the line") {
  const Finished job = run({"-np", "1", "-prefix-timestamp", "--no-prefix", "echo", "hi"});
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.out, Matches("[A-Z][a-z][a-z] [A-Z][a-z][a-z] [ 0-9][0-9] [0-9:]{8} [0-9]{4} hi\n"));
}

TEST_CASE("a timeline of a job in which no rank initialised Dabke is said not to be there, and why") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/t.json";
  const Finished job = run({"-np", "2", "--no-prefix", "--timeline-filename", path, "echo", "hi"});
  CHECK(job.exit_code == 0);
  CHECK(job.out == "hi\nhi\n");
  CHECK(job.error ==
        "dabkerun: timeline: '" + path +
            "' was not written: no rank initialised Dabke (dabke_init, in Python dabke.init())\n");
}

TEST_CASE("a full disk under the copies of the output is told again in the last lines, with the ranks") {
  const TemporaryDirectory directory;
  for (const char* const rank : {"/rank.0", "/rank.2"}) {
    std::filesystem::create_directories(directory.path() + rank);
    std::filesystem::create_symlink("/dev/full", directory.path() + rank + "/stdout");
  }
  const Finished job = run({"-np", "3", "--output-filename", directory.path(), "echo", "something"});
  CHECK(job.exit_code == 1);
  CHECK(lines_of(job.error).back() ==
        "dabkerun: --output-filename: the files of ranks 0,2 are incomplete: No space left on device");
}

TEST_CASE("a limit of file size is an error in writing, not the end of dabkerun") {
  const TemporaryDirectory directory;
  const Finished job =
      LauncherRun({"-c", "ulimit -f 1; exec \"$0\" -np 1 --output-filename \"$1\" \"$2\" long 5000", DABKERUN,
                   directory.path(), kWorker},
                  {.program = "bash"})
          .finish();
  CHECK(job.exit_code == 1);
  CHECK(job.out.size() == std::string("[0]<stdout>:").size() + 5001);
  CHECK_THAT(job.error, Contains("cannot write the output file of rank 0's stdout: File too large"));
}

TEST_CASE("a reader that is slow loses nothing and does not stop signals") {
  LauncherRun launcher({"-np", "2", "yes"});
  std::this_thread::sleep_for(
      300ms);  // the pipe and the launcher's memory are full, and both ranks wait in write
  launcher.signal(SIGINT);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 130);
  const auto lines = lines_of(job.out);
  CHECK(std::ranges::all_of(
      lines, [](const std::string& line) { return line == "[0]<stdout>:y" || line == "[1]<stdout>:y"; }));
}

TEST_CASE(
    "output that nobody reads when the job has been told to end is lost after a while, and told as lost") {
  const TemporaryDirectory directory;
  const std::string output = directory.path() + "/stdout";
  REQUIRE(::mkfifo(output.c_str(), 0600) == 0);
  const Fd reader(::open(output.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const bool is_over = GENERATE(false, true);  // before dabkerun gets SIGTERM
  LauncherRun launcher({"-c", "exec \"$0\" -np 1 --output-filename \"$1\" \"$2\" $3 \"$1\" >\"$1/stdout\"",
                        DABKERUN, directory.path(), kWorker, is_over ? "spill" : "flood"},
                       {.program = "bash"});
  const pid_t rank = directory.pid_in("0");
  if (is_over) REQUIRE(is_gone_within(rank, kPatience));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGTERM);
  CHECK(job.took < 4s + kPatience);
  CHECK_THAT(job.error, Contains(" bytes of output lost, because nothing read it"));
  if (is_over) CHECK(directory.text_of("rank.0/stdout").size() == 1 << 20);
}

TEST_CASE("the last words of a job wait for its reader, as all its output does") {
  // The line fills the pipe, so the pipe has no room for dabkerun's last lines.
  const auto size = std::to_string((64 << 10) - std::string("[0]<stdout>:\n").size());
  LauncherRun launcher({"-np", "1", "sh", "-c", "\"$0\" long \"$1\"; exit 3", kWorker, size},
                       {.one_output = true});
  std::this_thread::sleep_for(3s);  // the time to read one page
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 3);
  CHECK_THAT(job.out, Contains("exited with status code 3"));
}

}  // namespace dabke::test
