#include "tests/multiproc/negotiation_jobs.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/facts.h"

namespace dabke::test {
namespace {

constexpr std::string_view kMpi = "mpi-";

/// The script that mpirun starts for each rank; "$@" is the rank. mpirun merges the lines of several ranks,
/// and ends running ranks in its own ways. So each rank writes to files, and a rank that fails ends the
/// others as dabkerun would.
constexpr const char* kUnderMpirun = R"(
exec < /dev/null  # what rank 0 has there is closed at some time; pipes would get its number
me="$DABKE_TEST_PLACE/${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"
trap '' USR1  # by which MPICH's mpirun tells that another rank has ended
"$@" > "$me.out" 2> "$me.err" &
echo $! > "$me.pid"
wait $!
code=$?
rm "$me.pid"
echo ended > "$me.end"
if [ $code != 0 ] && mkdir "$DABKE_TEST_PLACE/first" 2> /dev/null; then
  echo $code > "$DABKE_TEST_PLACE/code"
  { kill -TERM $(cat "$DABKE_TEST_PLACE"/*.pid); } 2> /dev/null
fi
exit 0
)";

std::vector<std::string> mpirun_arguments(const Job& job) {
  const bool open_mpi = job.channel == "mpi-openmpi";
  std::vector<std::string> arguments{"-np", std::to_string(job.tree.ranks)};
  if (open_mpi) arguments.insert(arguments.end(), {"--oversubscribe", "--enable-recovery"});
  if (!open_mpi) arguments.emplace_back("-disable-auto-cleanup");
  arguments.insert(arguments.end(), {"sh", "-c", kUnderMpirun, "sh"});
  return arguments;
}

void append_lines(std::string& to, int rank, const std::string& stream, const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    to.append("[").append(std::to_string(rank)).append("]<").append(stream).append(">:").append(line) += '\n';
  }
}

}  // namespace

std::vector<std::string> channels() {
  const char* chosen = std::getenv("DABKE_TEST_CHANNELS");
  if (chosen == nullptr) return {"shm", "tcp", "auto"};
  std::vector<std::string> found;
  std::istringstream in(chosen);
  for (std::string channel; std::getline(in, channel, ',');) found.push_back(channel);
  return found;
}

std::vector<Tree> trees() {
  return {
      {"two, flat", 2, 0, 0},         {"three in a chain", 3, 1, 1}, {"four, flat", 4, 0, 0},
      {"four on two hosts", 4, 8, 2}, {"four in a chain", 4, 1, 1},  {"four in a binary tree", 4, 2, 1},
  };
}

std::vector<Tree> trees_from(int ranks) {
  std::vector<Tree> found = trees();
  std::erase_if(found, [&](const Tree& tree) { return tree.ranks < ranks; });
  return found;
}

JobRun::JobRun(const Job& job) : ranks_(job.tree.ranks) {
  const bool over_mpi = job.channel.starts_with(kMpi);
  std::vector<std::string> arguments{"-np", std::to_string(ranks_), "--grace-period", "60"};
  LauncherSetup setup{.environment = job.environment};
  if (over_mpi) {
    place_ = std::make_unique<TemporaryDirectory>();
    setup.program = "mpirun." + job.channel.substr(kMpi.size());
    arguments = mpirun_arguments(job);
    setup.environment.insert(setup.environment.end(),
                             {"DABKE_TEST_PLACE=" + place_->path(), "DABKE_MODULE_PATH=" MODULE_PATH,
                              "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                              // two launchers fail if they make one directory at the same time
                              "OMPI_MCA_orte_tmpdir_base=" + place_->path()});
  }
  arguments.insert(arguments.end(), job.command.begin(), job.command.end());
  setup.environment.push_back("DABKE_CONTROLLER=" + (over_mpi ? "mpi" : job.channel));
  setup.environment.push_back("DABKE_TREE_RADIX=" + std::to_string(job.tree.radix));
  setup.environment.push_back("DABKE_TEST_RANKS_PER_HOST=" + std::to_string(job.tree.ranks_per_host));
  setup.environment.push_back("DABKE_DUMP_DIR=none");
  run_ = std::make_unique<LauncherRun>(std::move(arguments), setup);
}

Finished JobRun::finish(std::chrono::seconds limit) {
  Finished finished = run_->finish(limit);
  if (!place_) return finished;
  finished.out.append(std::exchange(finished.error, ""));  // mpirun's own messages
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto text_of = [&](const char* what) { return place_->text_of(std::to_string(rank) + what); };
    append_lines(finished.out, rank, "stdout", text_of(".out"));
    append_lines(finished.error, rank, "stderr", text_of(".err"));
    if (finished.exit_code == 0 && text_of(".end").empty()) finished.exit_code = -1;  // mpirun killed it
  }
  if (const std::string code = place_->text_of("code"); !code.empty())
    finished.exit_code = std::atoi(code.c_str());
  return finished;
}

bool all_done(const Finished& finished, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (finished.out.find("[" + std::to_string(rank) + "]<stdout>:done\n") == std::string::npos) return false;
  }
  return finished.exit_code == 0 && finished.error.empty();
}

}  // namespace dabke::test
