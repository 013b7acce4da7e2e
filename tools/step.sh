# Sourced. `step NAME COMMAND...` names a step of a script, runs it and prints its time; where the
# command fails, the script ends there. `beside NAME COMMAND...` starts one that others need not wait
# for, and `joined NAME` waits for it and prints its time and then what it said. Where the script ends
# early, those beside end too, and the last that they said is printed.
step() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "-- $name: $((SECONDS - began)) s"
}

declare -A BESIDE=() SAID=()
beside() {
  local name=$1 began=$SECONDS said
  shift
  said=$(mktemp)
  set -m # a group of its own, which ends with all that it has started
  (
    trap 'echo "$((SECONDS - began)) s" >"$said.time"' EXIT
    "$@"
  ) >"$said" 2>&1 &
  set +m
  BESIDE[$name]=$!
  SAID[$name]=$said
  trap cut_off EXIT
}
cut_off() {
  local name
  ((${#BESIDE[@]})) || return 0
  kill -- "${BESIDE[@]/#/-}" 2>/dev/null || true
  for name in "${!SAID[@]}"; do
    echo "== $name: cut off; the last that it said:"
    tail -n 40 "${SAID[$name]}"
  done
  rm -f "${SAID[@]}" "${SAID[@]/%/.time}"
}
joined() {
  local status=0 said=${SAID[$1]}
  wait "${BESIDE[$1]}" || status=$?
  echo "== $1: $(cat "$said.time"), beside others"
  cat "$said"
  rm -f "$said" "$said.time"
  unset "BESIDE[$1]" "SAID[$1]"
  return $status
}
