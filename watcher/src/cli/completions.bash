# Completions of `watcher` for bash: the words up to the cursor go to the program, and its proposals come back.
_watcher() {
    local words=() word last glue= quote= reply replies=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        last=$((${#words[@]} - 1))
        # Bash makes words of their own of equals signs, and hands every word over as it was typed, quotes and all.
        if [[ $word == '=' && $last -gt 0 ]]; then
            words[last]+='='
            glue=yes
            continue
        fi
        case $word in [\'\"]*) quote=${word:0:1} ;; *) quote= ;; esac
        word=${word//[\\\'\"]/}
        if [[ $glue ]]; then
            words[last]+=$word
            glue=
        else
            words+=("$word")
        fi
    done
    IFS=$'\013' read -r -d '' -a replies < <(COMPLETE=bash "watcher" -- "${words[@]}" && printf '\013')
    COMPREPLY=()
    word=${words[${#words[@]} - 1]}
    for reply in "${replies[@]}"; do
        # Only what stands behind the equals sign is replaced.
        [[ $word == --*=* ]] && reply=${reply#*=}
        # Within quotes bash adds the quote that is missing.
        [[ $quote ]] || printf -v reply '%q' "$reply"
        COMPREPLY+=("$reply")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -o nosort -F _watcher watcher 2> /dev/null || complete -o bashdefault -F _watcher watcher
