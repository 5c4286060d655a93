#!/usr/bin/env bash
# What a change to kernels has to pass on a GPU (CONTRIBUTING.md), with programs that are built already:
#   tests/cuda/verify.sh build/cuda/tests [SECONDS]
# SECONDS: how long to draw random problems (default: 180). Ends with a line for each part; fails if a part has failed.
set -uo pipefail
programs=$1
seconds=${2:-180}
output=$(mktemp)
status=0
summary=()

part() { # NAME COMMAND...
  local name=$1 began=$SECONDS result=passed
  shift
  "$@" >"$output" 2>&1 || { result=FAILED; status=1; }
  printf '\n==> %s: %s\n' "$name" "$result"
  if [[ $result == FAILED ]]; then tail -n 60 "$output"; else tail -n 3 "$output"; fi
  summary+=("$name: $result in $((SECONDS - began)) s")
}

part suites "$programs/sdtw_tests" --device cuda
part random "$programs/sdtw_differential" --device cuda --seconds "$seconds" --share 0.02 --seed "$RANDOM$RANDOM"
for shapes in residues large thin; do
  part "$shapes" "$programs/sdtw_differential" --device cuda "--$shapes" --seconds "$seconds" --seed "$RANDOM$RANDOM"
done
for tool in memcheck racecheck synccheck initcheck; do
  part "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$programs/sdtw_differential" --device cuda \
    --threads 1 --cells 12000 --problems 60 --seed "$RANDOM"
done

printf '\n==> summary\n'
printf '%s\n' "${summary[@]}"
exit "$status"
