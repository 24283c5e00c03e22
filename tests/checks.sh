# What `tests/run --all` checks besides the results of the tests. tests/run sources this file, and
# tests/documents/full_run.rs runs it on results that it makes up.
# shellcheck shell=bash

# Removes every variable that could narrow a run, or make it write files. Kept are those that say
# where tools are.
forget_variables() {
  local name
  for name in $(compgen -e); do
    case $name in
      SUNDOWN_CACHE | SUNDOWN_CONTROL_PLANE | SUNDOWN_PYTHON) ;;
      # Fewer cases a property, and a program that runs instead of the tests.
      SUNDOWN_* | PROPTEST_* | CARGO_TARGET_*_RUNNER) unset "$name" ;;
    esac
  done
}

# Runs a git command that keeps its new objects and its index in the folder $1, so that nothing is
# written into the repository.
git_beside() {
  local folder=$1
  shift
  GIT_INDEX_FILE=$folder/index GIT_OBJECT_DIRECTORY=$folder/objects \
    GIT_ALTERNATE_OBJECT_DIRECTORIES=$(git rev-parse --path-format=absolute --git-path objects) \
    git -c core.safecrlf=false "$@"
}

# Prints the tree of all files as they are now, whether they are committed or not. Files that
# .gitignore names are left out. $1: a folder for what git writes.
tree_now() {
  mkdir -p "$1/objects"
  # Without its index git reads every file, so that one whose size and time are unchanged is seen.
  rm -f "$1/index"
  git_beside "$1" add --all . >&2 || return
  git_beside "$1" write-tree
}

# Prints the files that differ between two trees of `tree_now`, one a line, with what happened (git's
# letters: A added, D deleted, M modified).
changed_files() {
  git_beside "$1" diff-tree -r --no-renames --name-status "$2" "$3"
}

# Prints how many WHAT the tests of a log have played: the sum of their lines `played: NUMBER WHAT …`.
played() {
  awk -v what="$2" '$1 == "played:" && $3 == what { sum += $2 } END { print sum + 0 }' "$1"
}

# Fails, and says why, if a log of cargo test shows no test that passed, or one that was left out.
all_tests_ran() {
  awk -v log_name="$2" '
    /^test result: / {
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^passed/) passed += $(i - 1)
        if ($i ~ /^ignored/ || $i == "filtered") left_out += $(i - 1)
      }
    }
    END {
      if (left_out) printf "%s: %d tests were ignored or filtered out\n", log_name, left_out
      if (!passed) printf "%s: no test passed\n", log_name
      exit left_out || !passed
    }' "$1" >&2
}
