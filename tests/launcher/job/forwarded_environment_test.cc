#include "launcher/job/forwarded_environment.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;

TEST_CASE("what belongs to this host, this login or another launcher stays here, and all else goes along") {
  const std::vector<std::string> kept{"SSH_AUTH_SOCK=/s",
                                      "SSH_CONNECTION=a",
                                      "XDG_RUNTIME_DIR=/run",
                                      "DBUS_SESSION=x",
                                      "DISPLAY=:0",
                                      "WAYLAND_DISPLAY=w",
                                      "HOSTNAME=here",
                                      "OLDPWD=/",
                                      "BASH_FUNC_f%%=() { :; }",
                                      "PMI_RANK=0",
                                      "PMI2_RANK=0",
                                      "PMIX_RANK=0",
                                      "_HOROVOD_SECRET_KEY=k",
                                      "OMPI_COMM_WORLD_RANK=0",
                                      "SLURM_PROCID=0",
                                      "SLURM_STEPID=1",
                                      "SLURM_STEP_NODELIST=a",
                                      "SLURM_TASK_PID=5",
                                      "SLURM_LOCALID=0",
                                      "SLURM_NODEID=0",
                                      "SLURM_GTIDS=0",
                                      "SLURM_LAUNCH_NODE_IPADDR=1.2.3.4"};
  const std::vector<std::string> go{
      "PATH=/bin",        "HOME=/root", "LD_LIBRARY_PATH=/l", "HOSTNAMES=a",          "MY_DISPLAY=:1",
      "EMPTY=",           "ODD=a=b\nc", "SLURM_JOB_ID=7",     "DABKE_LOG_LEVEL=info", "HOROVOD_TIMELINE=t",
      "OMP_NUM_THREADS=4"};
  std::vector<std::string> all = kept;
  all.insert(all.end(), go.begin(), go.end());
  CHECK(forwarded_environment(all) == go);
}

}  // namespace dabke::test
