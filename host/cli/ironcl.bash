# SPDX-License-Identifier: Apache-2.0
# Completion of `ironcl` in bash, and in zsh by bashcompinit: what its own help lists, else names of files.
_ironcl() {
  local word=${COMP_WORDS[COMP_CWORD]} words=
  if [ "$COMP_CWORD" -eq 1 ] || [ "${COMP_WORDS[1]}" = help ]; then
    words=$("$1" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
  elif [[ $word == -* ]]; then
    words=$("$1" "${COMP_WORDS[1]}" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr , ' ')
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _ironcl ironcl
