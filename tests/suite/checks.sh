# Sourced by the tests of the program; $work is their folder for what it leaves. A test ends with end_checks.
# shellcheck shell=sh disable=SC2154
failures=0

fail() { # TEXT
  echo "FAIL $1"
  failures=$((failures + 1))
}

# run NAME WANTED_CODE COMMAND...: the exit code must be the wanted one; stdout and stderr stay in $work
run() {
  name=$1 wanted=$2
  shift 2
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  [ "$code" = "$wanted" ] && return 0
  fail "$name: exit code $code, wanted $wanted"
  sed 's/^/    /' "$work/stdout" "$work/stderr"
}

# has NAME FILE TEXT: the file holds the text
has() {
  grep -qF -- "$3" "$2" && return 0
  fail "$1: '$3' is not in $2:"
  sed 's/^/    /' "$2"
}

# hasnt NAME FILE TEXT: it does not
hasnt() {
  grep -qF -- "$3" "$2" || return 0
  fail "$1: '$3' is in $2"
}

end_checks() { # TEXT
  [ "$failures" = 0 ] && echo "$1"
  exit $((failures > 0))
}
