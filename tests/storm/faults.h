// Faults on purpose, for tests/fault: what befalls this rank, at which point of its program, and what it then takes
// from the library without calling it wrong.
//
// Environment:
//   STORM_JOURNAL  the file to which all ranks of the job append a line for whatever a campaign must know. Only
//                  with it may calls end because a rank was lost.
//   STORM_FAULTS   one fault a line: RANK POINT NTH DELAY_US ACTION [ARGUMENT]. It comes so long after that rank has
//                  reached the point for the NTH time, from 0 on. Actions:
//                    kill          SIGKILL
//                    stop SECONDS  SIGSTOP, later SIGCONT
//                    files N       its descriptors are limited to N more than it has
//                    garbage N     N bytes that nobody asked for into each of its connections; the rank goes on when
//                                  they are there, so that they come between two messages
//                    shell TEXT    whatever /bin/sh makes of it; STORM_VICTIM is the rank's process
//   STORM_DEAD     the ranks that are not to be in the job after this one, such as "1,2"
//   STORM_AGAIN    where the others meet for that job: a DABKE_RENDEZVOUS. Empty: there is none.
#pragma once

#include <string>

#include "dabke/dabke.h"
#include "program.h"

namespace storm {

/// Where a rank is in its program.
enum class Point { init, step, change, join, leave };
constexpr Point kPoints[] = {Point::init, Point::step, Point::change, Point::join, Point::leave};
const char* name_of(Point point);
/// How often a rank comes to a point.
int count_of(const Program& program, Point point, int rank);

/// Before the process has a second thread, because it forks the process that strikes.
void prepare_faults(int rank);
/// Of a rank of another kind, which is this one's parent: strikes it as it orders on stdin, and answers on stdout.
[[noreturn]] void strike_parent(int rank);
/// The main thread alone.
void reached(Point point);

/// Whether a call that did not end as it should has an excuse: a rank was lost, or had been before. Any thread.
bool is_excused(const std::string& what, dabke_status got, const std::string& text);
/// Whether such an excuse may come, as in a campaign.
bool expects_faults();
/// Whether this rank has learned that its job is over.
bool has_lost();

/// A line in the journal.
void note(const std::string& text);

/// What is left of the job makes another one, of which every sum is right.
void run_again(const Program& program, int rank);

}  // namespace storm
