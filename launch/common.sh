# shellcheck shell=bash
# What the launchers share: their flags, one sentence for a mistake, and
# commands that a dry run prints instead, quoted so that they can be pasted.

dry=''
env=() # 'env NAME=VALUE ...' for every process, if any was given
words=() # what experiments.train is told

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

# The comment at the top of the script that was started.
usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
}

# Its arguments as one line of shell. Not printf %q: what that makes of special
# characters is read by bash only, and a login shell may be another.
quoted() {
  local word line=''
  for word in "$@"; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then
      word="'${word//\'/\'\\\'\'}'"
    fi
    line+="${line:+ }$word"
  done
  printf '%s' "$line"
}

# Runs a command, or prints it.
run() {
  if [[ $dry ]]; then
    printf '%s\n' "$(quoted "$@")"
  else
    "$@"
  fi
}

# parse 'NAMES' ARGUMENTS: --name=value into $name, --env into env, what
# follows -- into words.
parse() {
  local names=$1 flag
  shift
  while (($#)); do
    case $1 in
      --)
        words=("${@:2}")
        break
        ;;
      --help)
        usage
        exit
        ;;
      --dry-run) dry=1 ;;
      --env=*)
        [[ ${1#*=} =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] ||
          fail "$1 is not --env=NAME=VALUE"
        ((${#env[@]})) || env=(env)
        env+=("${1#*=}")
        ;;
      *)
        flag=${1%%=*}
        flag=${flag#--}
        [[ $1 == --*=* && $flag =~ ^[a-z]+$ && " $names " == *" $flag "* ]] ||
          fail "'$1' is no flag of ${0##*/}; --help lists them, and what\
 experiments.train is told stands after --"
        printf -v "$flag" '%s' "${1#*=}"
        ;;
    esac
    shift
  done
  check_words
}

check_words() {
  local word config='' workdir=''
  for word in "${words[@]}"; do
    case $word in
      *$'\n'*) fail 'an argument has a line break; write it in one line' ;;
      --config=*) config=$word ;;
      --workdir=*) workdir=$word ;;
      --coordinator=* | --processes=* | --process=*)
        fail "$word is not for you to say; ${0##*/} does"
        ;;
    esac
  done
  [[ $config && $workdir ]] ||
    fail '--config=FILE and --workdir=FOLDER are missing; write them after --'
  [[ $workdir == --workdir=/* ]] ||
    fail "$workdir is not absolute; every process must find the same folder"
}

# need NAMES: flags that have no default.
need() {
  local flag
  for flag in "$@"; do
    [[ ${!flag} ]] || fail "--$flag is missing; --help says what it is"
  done
}

# Whether a name will do for jobs and machines everywhere.
check_name() {
  [[ $1 =~ ^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$ ]] ||
    fail "--name=$1 will not do; use at most 40 small letters, digits and -"
}

# check_number NAMES: flags that count something.
check_number() {
  local flag
  for flag in "$@"; do
    [[ ${!flag} =~ ^[1-9][0-9]{0,5}$ ]] ||
      fail "--$flag=${!flag} is not a number from 1"
  done
}

# worker PLATFORM: the start of one process, as one line.
worker() {
  quoted "${env[@]}" bash launch/worker.sh "$1" "${words[@]}"
}
