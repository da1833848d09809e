#!/bin/sh
# Runs the checks and measurements of tensors on a CUDA machine, and prints one table. That machine needs
# neither a network nor build tools.
#
#   tests/gpu/run.sh pack [DIR]       where Dabke is built: puts everything needed into DIR (build-gpu)
#   tests/gpu/run.sh [FLAGS] [STEP..] on the CUDA machine; see --help
#
# DIR holds this script too, so only DIR need be copied. Both parts need only Python 3.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
if [ "$1" = pack ]; then
  shift
  exec python3 "$here/pack.py" "$@"
fi
exec python3 "$here/steps.py" "$@"
