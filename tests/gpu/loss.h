// A rank that is lost while its peers' devices wait for it.
#pragma once

namespace dabke::test {

/// The last rank kills itself amid collectives of large tensors, once the first is done. The others print a figure: how long
/// it took until all of their handles had ended, and with what. Then each runs some cases alone in the same process; the exit code.
int lose_a_rank();

}  // namespace dabke::test
