#!/usr/bin/env bash
# Builds and runs the fuzz targets, in build-clang or in DABKE_FUZZ_BUILD, from the corpus beside this script.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source_root=$(readlink -f "$here/../..")
build=$(readlink -f "${DABKE_FUZZ_BUILD:-$source_root/build-clang}")
at_a_time=2

usage() {
  cat <<'USAGE'
usage: tests/fuzz/run.sh HOURS [TARGET...]     for so long each (0.5 is half an hour), two at a time;
                                               all targets, if none is given
       tests/fuzz/run.sh --replay TARGET FILE  once, with the input that crashed it
       tests/fuzz/run.sh --corpus              writes the seeds of decode, negotiator, records and
                                               shm_agreement again
       tests/fuzz/run.sh --slice PROGRAM       for 10 seconds, as CI does

The first three configure and build what they need, in build-clang or in DABKE_FUZZ_BUILD (Debian packages
clang-14 and libclang-rt-14-dev). New inputs of a target are kept in BUILD/fuzz/TARGET/corpus, where the next
run continues. Inputs that crash it are kept as BUILD/fuzz/TARGET/crash-... (leak-..., oom-..., timeout-...).
CI prints such a file in base64; base64 -d >FILE restores it.
USAGE
}

fail() { printf 'run.sh: %s\n' "$*" >&2; exit 1; }

all_targets() { for seeds in "$here"/corpus/*/; do basename "$seeds"; done; }

# build_programs NAME...: builds programs of tests/fuzz.
build_programs() {
  if [[ ! -f $build/build.ninja ]]; then
    CC=${CC:-clang-14} CXX=${CXX:-clang++-14} "${MESON:-meson}" setup "$build" "$source_root" -Dfuzz=enabled \
      -Dtests=disabled -Dbenchmarks=disabled
  fi
  ninja -C "$build" "${@/#/tests/fuzz/}" || fail "$build cannot build them; it needs clang and -Dfuzz=enabled"
}

# fuzz PROGRAM DIR OPTION...: keeps new inputs and crashes in DIR.
fuzz() {
  local program=$1 dir=$2
  shift 2
  mkdir -p "$dir/corpus"
  export TMPDIR=$dir
  export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
  "$program" -timeout=60 -rss_limit_mb=2048 -artifact_prefix="$dir/" "$@"
}

# fuzz_for SECONDS PROGRAM DIR OPTION...: starts from the seeds and from the inputs that DIR already has.
fuzz_for() {
  local seconds=$1 program=$2 dir=$3 name=${2##*/fuzz_} dictionary=()
  shift 3
  [[ ! -f $here/$name.dict ]] || dictionary=("-dict=$here/$name.dict")
  fuzz "$program" "$dir" -max_total_time="$seconds" -max_len=65536 -print_final_stats=1 \
    "${dictionary[@]}" "$@" "$dir/corpus" "$here/corpus/$name"
}

case ${1:-} in
  --corpus) (( $# == 1 )) || { usage >&2; exit 2; }
    build_programs make_corpus
    exec "$build/tests/fuzz/make_corpus" "$here/corpus" ;;
  --replay) (( $# == 3 )) || { usage >&2; exit 2; }
    build_programs "fuzz_$2"
    fuzz "$build/tests/fuzz/fuzz_$2" "$build/fuzz/$2" "$3" ;;
  --slice) (( $# == 2 )) || { usage >&2; exit 2; }
    # The seeds and the random numbers are the same each time, so that a
    # finding is due to a change of the code.
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    if fuzz_for 10 "$2" "$dir" -seed=1; then exit 0; fi
    for crash in "$dir"/*-*; do
      [[ -f $crash ]] || continue
      echo "$(basename "$crash"), in base64:"
      base64 "$crash"
    done
    exit 1 ;;
  [0-9.]*)
    seconds=$(awk -v hours="$1" 'BEGIN { printf "%d", hours * 3600 }')
    (( seconds > 0 )) || { usage >&2; exit 2; }  # 0 would run for ever
    shift
    targets=("$@")
    (( $# )) || mapfile -t targets < <(all_targets)
    build_programs "${targets[@]/#/fuzz_}"
    failed=0
    trap '[[ -z $(jobs -p) ]] || kill $(jobs -p)' EXIT
    while (( ${#targets[@]} )); do
      now=("${targets[@]:0:at_a_time}") pids=()
      for name in "${now[@]}"; do
        dir=$build/fuzz/$name
        mkdir -p "$dir"
        fuzz_for "$seconds" "$build/tests/fuzz/fuzz_$name" "$dir" >"$dir/log" 2>&1 &
        pids+=($!)
        echo "$name: $dir/log"
      done
      for i in "${!pids[@]}"; do
        wait "${pids[i]}" || { echo "FAILED ${now[i]}"; tail -n 5 "$build/fuzz/${now[i]}/log"; failed=1; }
      done
      targets=("${targets[@]:at_a_time}")
    done
    exit $failed ;;
  -h|--help) usage ;;
  *) usage >&2; exit 2 ;;
esac
