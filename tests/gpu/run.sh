#!/bin/sh
# What is seen of tensors on a CUDA machine, which needs neither a network nor tools to build: one table.
#
#   tests/gpu/run.sh pack [DIR]       where Dabke is built: puts what is needed into DIR (build-gpu)
#   tests/gpu/run.sh [FLAGS] [STEP..] on the CUDA machine; --help says more
#
# DIR holds this script too, so it can be copied alone. Both parts want Python 3 and nothing else.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
if [ "$1" = pack ]; then
  shift
  exec python3 "$here/pack.py" "$@"
fi
exec python3 "$here/steps.py" "$@"
