// Faults on purpose, for tests/fault: the faults of this rank, the points of its program at which they come,
// and the errors of the library that are right after them.
//
// Environment:
//   STORM_JOURNAL  the file to which all ranks of the job append a line for each fact that a campaign needs.
//                  Only with a journal may calls fail because a rank was lost.
//   STORM_FAULTS   one fault a line: RANK POINT NTH DELAY_US ACTION [ARGUMENT]. It comes after the delay,
//                  once that rank has reached the point for the NTH time (from 0 on). At a point of
//                  a message, NTH is the number of the message. Actions:
//                    kill          SIGKILL
//                    stop SECONDS  SIGSTOP, later SIGCONT
//                    stop-and-kill SECONDS  SIGSTOP, later SIGKILL
//                    files N       its descriptors are limited to N more than it has
//                    garbage N     N random bytes into each of its connections; the rank waits until they are
//                                  sent, so that they come between two messages
//                    shell TEXT    a command of /bin/sh; STORM_VICTIM is the rank's process
//   STORM_DEAD     the ranks that are not in the job after this one, such as "1,2"
//   STORM_AGAIN    the DABKE_RENDEZVOUS of the other ranks for that job. Empty: there is no such job.
#pragma once

#include <string>

#include "dabke/dabke.h"
#include "program.h"

namespace storm {

/// The points of a rank's program.
enum class Point {
  init,
  step,
  change,
  join,
  leave,
  // The points of a timed message:
  awaited,    // the other end waits, and this end has not submitted yet
  announced,  // this end has submitted, and the other end has not
  moving,     // both ends have submitted
  ended,      // this end has completed
};
/// The points that a rank reaches a known number of times.
constexpr Point kPoints[] = {Point::init, Point::step, Point::change, Point::join, Point::leave};
const char* name_of(Point point);
/// The number of times that a rank reaches one of kPoints.
int count_of(const Program& program, Point point, int rank);

/// Forks the striking process, so call it before the process has a second thread.
void prepare_faults(int rank);
/// For a rank of another kind, which is this process's parent: strikes it at its
/// orders on stdin, and answers on stdout.
[[noreturn]] void strike_parent(int rank);
/// Only the main thread calls this.
void reached(Point point);
/// The same for a point of the timed message of this number.
void reached(Point point, int number);
/// True if a fault comes when this rank reaches that point of the message.
bool has_fault_at(Point point, int number);

/// True if there is an excuse for the unexpected end of a call: a rank is lost, or was
/// lost before. Any thread may call it.
bool is_excused(const std::string& what, dabke_status got, const std::string& text);
/// True if such an excuse is possible, as in a campaign.
bool expects_faults();
/// True if this rank has an error that shows that its job is over.
bool has_lost();

/// Writes a line to the journal.
void note(const std::string& text);
/// Waits until that rank has written that line, or for a second. Only the main thread calls this.
void wait_for_note(int rank, const std::string& text);

/// The ranks that are left run another job, in which every sum must be right.
void run_again(const Program& program, int rank);

}  // namespace storm
