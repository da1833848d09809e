// Chooses how a program's job is started, and with which knobs.
#pragma once

#include "program.h"
#include "random.h"

namespace storm {

void choose_start(Random& random, Program& program);
void choose_knobs(Random& random, const Program& program, Epoch& epoch);

}  // namespace storm
