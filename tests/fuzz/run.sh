#!/usr/bin/env bash
# Runs the fuzz targets of build-clang, or of DABKE_FUZZ_BUILD, from the corpus beside this script.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

usage() {
  cat <<'USAGE'
usage: tests/fuzz/run.sh HOURS [TARGET...]   for so long each (0.5 is half an hour), two at a time; all, if none is given
       tests/fuzz/run.sh --corpus            writes the seeds of decode and machine again
       tests/fuzz/run.sh --slice PROGRAM     for 20 seconds, as CI does

What is new to a target is kept in BUILD/fuzz/TARGET/corpus, and what crashes it in BUILD/fuzz/TARGET/crash-...; run the
target (BUILD/tests/fuzz/fuzz_TARGET) with that file to see it again.
USAGE
}

# fuzz PROGRAM SECONDS DIR: reads the seeds and keeps what it finds in DIR.
fuzz() {
  local program=$1 seconds=$2 dir=$3 name=${1##*/fuzz_} slowest=25
  mkdir -p "$dir/corpus"
  export TMPDIR=$dir
  export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
  "$program" -max_total_time="$seconds" -timeout="$slowest" -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$dir/" "$dir/corpus" "$here/corpus/$name"
}

build=${DABKE_FUZZ_BUILD:-$here/../../build-clang}
case ${1:-} in
  --corpus) (( $# == 1 )) || { usage >&2; exit 2; }
    exec "$build/tests/fuzz/make_corpus" "$here/corpus" ;;
  --slice) (( $# == 2 )) || { usage >&2; exit 2; }
    # From the same seeds each time, so that a finding is a finding of what was changed.
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    if fuzz "$2" 20 "$dir"; then exit 0; fi
    for crash in "$dir"/*-*; do
      [[ -f $crash ]] || continue
      echo "$(basename "$crash"), in base64:"
      base64 "$crash"
    done
    exit 1 ;;
  [0-9]*)
    seconds=$(awk -v hours="$1" 'BEGIN { printf "%d", hours * 3600 }')
    shift
    targets=("$@")
    if (( ${#targets[@]} == 0 )); then
      for seeds in "$here"/corpus/*/; do targets+=("$(basename "$seeds")"); done
    fi
    failed=0
    while (( ${#targets[@]} )); do
      pids=()
      for name in "${targets[@]:0:2}"; do
        mkdir -p "$build/fuzz/$name"
        fuzz "$build/tests/fuzz/fuzz_$name" "$seconds" "$build/fuzz/$name" >"$build/fuzz/$name/log" 2>&1 &
        pids+=($!)
        echo "$name: $build/fuzz/$name/log"
      done
      for i in "${!pids[@]}"; do
        wait "${pids[i]}" || { echo "FAILED ${targets[i]}"; tail -n 5 "$build/fuzz/${targets[i]}/log"; failed=1; }
      done
      targets=("${targets[@]:2}")
    done
    exit $failed ;;
  -h|--help) usage ;;
  *) usage >&2; exit 2 ;;
esac
