// Messages for tests/fault, which strikes a rank at a known moment of one of them:
//   1. The early end submits, and writes that into the journal.
//   2. The late end reads that line, waits for some more milliseconds, and submits.
//   3. Both ends wait until the message has ended, and write that into the journal.
// Some of the messages are large, and some are received from any rank.
#pragma once

#include <memory>
#include <vector>

#include "part.h"
#include "program.h"

namespace storm {

/// Adds timed messages to each epoch. They follow from the program's seed.
void add_messages(Program& program);

/// Runs this rank's ends of the epoch's timed messages, until a peer is lost. Returns what it has run: a
/// callback may still come until the job has ended.
std::vector<std::unique_ptr<Part>> run_messages(const Here& here);

}  // namespace storm
