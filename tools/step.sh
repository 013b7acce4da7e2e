# Sourced. `step NAME COMMAND...` names a step of a script, runs it and prints its time; where the
# command fails, the script ends there.
step() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "-- $name: $((SECONDS - began)) s"
}
