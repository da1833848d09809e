#include "launcher/job/signals/signal_answers.h"

#include <signal.h>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Answer = SignalAnswers::Answer;
using Stage = SignalAnswers::Stage;

struct SignalledJob {
  Answer send(int signal, Stage stage) {
    now += 2 * StepSignals::kQuiet;  // so that it is not taken for the signal before
    return answers.answer(signal, nullptr, "", {71, "pid 71 (bash)"}, stage, now);
  }
  SignalAnswers answers;
  TimePoint now{};
};

}  // namespace

TEST_CASE("a signal that ends a job is passed on first, and a second Ctrl-C kills") {
  SignalledJob job;
  CHECK(job.send(SIGINT, Stage::running) == Answer::interrupt);
  CHECK(job.answers.interrupted_by() == SIGINT);
  CHECK(job.send(SIGINT, Stage::ending) == Answer::kill);
  CHECK(job.answers.interrupted_by() == SIGINT);
}

TEST_CASE("a second SIGTERM changes nothing, and another signal is passed on once") {
  SignalledJob job;
  CHECK(job.send(SIGTERM, Stage::running) == Answer::interrupt);
  CHECK(job.send(SIGTERM, Stage::ending) == Answer::nothing);
  CHECK(job.send(SIGHUP, Stage::ending) == Answer::pass_on);
  CHECK(job.send(SIGHUP, Stage::ending) == Answer::nothing);
  CHECK(job.answers.interrupted_by() == SIGTERM);
  CHECK(job.answers.last() == SIGHUP);
}

TEST_CASE("a job that ends because of a failure is killed by Ctrl-C and by nothing else") {
  SignalledJob job;
  CHECK(job.send(SIGTERM, Stage::ending) == Answer::nothing);
  CHECK(job.send(SIGINT, Stage::ending) == Answer::kill);
  CHECK_FALSE(job.answers.interrupted_by());
}

TEST_CASE("before the ranks are started a signal refuses the job, or is lost") {
  SignalledJob job;
  CHECK(job.send(SIGUSR1, Stage::starting) == Answer::too_early);
  CHECK(job.send(SIGCONT, Stage::starting) == Answer::nothing);
  CHECK(job.send(SIGWINCH, Stage::starting) == Answer::nothing);
  CHECK(job.answers.sender_of(SIGUSR1).empty());
  CHECK(job.send(SIGTERM, Stage::starting) == Answer::refuse);
  CHECK_FALSE(job.answers.interrupted_by());
}

TEST_CASE("once all ranks are over a signal is about their output alone") {
  SignalledJob job;
  CHECK(job.send(SIGINT, Stage::printing) == Answer::hurry);
  CHECK(job.answers.last() == SIGINT);
  CHECK_FALSE(job.answers.interrupted_by());
}

TEST_CASE("a signal that is the application's own is forwarded, and its sender is kept for the verdict") {
  SignalledJob job;
  CHECK(job.send(SIGUSR1, Stage::running) == Answer::forward);
  CHECK(job.send(SIGUSR2, Stage::ending) == Answer::forward);
  CHECK(job.answers.sender_of(SIGUSR1) == "pid 71 (bash)");
  CHECK(job.answers.sender_of(SIGQUIT).empty());
  CHECK_FALSE(job.answers.last());
}

TEST_CASE("what a batch system sends to every process of a step is answered once") {
  SignalAnswers answers;
  const SignalSender slurm{71, "pid 71 (slurmstepd)", true};
  const char agent{};
  CHECK(answers.answer(SIGUSR1, nullptr, "", slurm, Stage::running, {}) == Answer::forward);
  CHECK(answers.answer(SIGUSR1, &agent, "b", slurm, Stage::running, {}) == Answer::nothing);
}

}  // namespace dabke::test
