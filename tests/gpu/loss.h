// A rank that is lost while its peers' devices wait for it.
#pragma once

namespace dabke::test {

/// The last rank kills itself amid collectives of large tensors, once the first one is done. The other ranks
/// print a figure: the time until all their handles had ended, and the error. Then each of them runs some
/// cases alone in the same process. Returns the exit code.
int lose_a_rank();

}  // namespace dabke::test
