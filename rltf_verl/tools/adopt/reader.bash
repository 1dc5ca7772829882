# Read by bash before a launch script. A DEBUG trap sees each simple command before it would start,
# in functions, subshells and `$(…)` too, and bash skips what `__rltf_allows` does not allow. It
# allows bash's own commands and programs that only read. The words of all others, as bash expands
# them, go to `__rltf_seen`, which writes down a training, or what was skipped.
#
# Names begin with `__rltf_`, since a script's variables have others. `=~` would change the script's
# BASH_REMATCH. What forks stands in `$(…)`: a trap that forks otherwise breaks pipelines of bash.
#
# Arguments: a file of `__rltf_run_copy` to start from, if any.

# scripts that start each other would do so without end
export RLTF_DEPTH=$((${RLTF_DEPTH-0} + 1))
((RLTF_DEPTH < 50)) || return 1
__rltf_folder=$RLTF_ADOPT __rltf_value= __rltf_writes=
: >>"$__rltf_folder/skipped" & # `$!` is set, as after a command that is skipped
wait
exec {BASH_XTRACEFD}>/dev/null # `set -x` would print our commands
# without an argument $1 would be the caller's; bash's read-only variables are no errors
[[ ${1-} != "$__rltf_folder"/state.* ]] || . "$1" 2>/dev/null
__rltf_entry= __rltf_extglob=u
! shopt -q extglob || __rltf_extglob=s
shopt -s extglob # to read what follows

# True if the raw text is whole words: no quote or bracket is open at its end.
__rltf_whole() {
    [[ $1 == +([a-zA-Z0-9_./=:-]) || -n $(eval "__rltf_none() { : $1"$'\n'"}" 2>/dev/null && echo 1) ]]
}

# Split a raw command into __rltf_words and __rltf_redirects, which bash puts last.
__rltf_cut() {
    local __rltf_before
    __rltf_words= __rltf_redirects=$1
    while [[ $__rltf_redirects == *[\<\>]* ]]; do
        __rltf_before=$__rltf_words${__rltf_redirects%%[<>]*}
        __rltf_redirects=${1:${#__rltf_before}}
        __rltf_words=$__rltf_before
        if [[ $__rltf_redirects != ?\(* ]] && __rltf_whole "${__rltf_before%&}"; then
            __rltf_words=${__rltf_before%%*( )*([0-9&])}
            return
        fi
        __rltf_words+=${__rltf_redirects:0:1} __rltf_redirects=${__rltf_redirects:1}
    done
    __rltf_words+=$__rltf_redirects __rltf_redirects=
}

# Split raw words into __rltf_prefix, assignments before a call, and __rltf_call; __rltf_head is the
# raw word of the program, empty if there is none.
__rltf_find_head() {
    local __rltf_rest=$1 __rltf_next
    __rltf_prefix= __rltf_head=
    while [[ -n $__rltf_rest ]]; do
        __rltf_call=$__rltf_rest __rltf_head=${__rltf_rest%% *}
        __rltf_rest=${__rltf_rest:${#__rltf_head}}
        until [[ -z $__rltf_rest ]] || __rltf_whole "$__rltf_head"; do
            __rltf_next=${__rltf_rest:1}
            __rltf_next=" ${__rltf_next%% *}"
            __rltf_head+=$__rltf_next __rltf_rest=${__rltf_rest:${#__rltf_next}}
        done
        __rltf_rest=${__rltf_rest# }
        [[ $__rltf_head == [a-zA-Z_]*([a-zA-Z0-9_])?(\[*\])?(+)=* ]] || return 0
        __rltf_prefix+="$__rltf_head " __rltf_head=
    done
}

# Run code under the same trap in another bash. $1: state to start from, or empty; $2: code; then $0
# and arguments.
__rltf_run() {
    RLTF_ADOPT=$__rltf_folder "$BASH" -c ". '$__rltf_folder/reader.bash' '$1' || exit
$2" "${@:3}" </dev/null
}

# Run code in a copy of this shell: what a trap runs itself comes to no trap.
__rltf_run_copy() {
    local __rltf_file=$__rltf_folder/state.$BASHPID
    { shopt -p; declare -p; declare -f; } >|"$__rltf_file"
    # bash does not let the copy set BASH_SOURCE
    : "$(__rltf_run "$__rltf_file" "${1//BASH_SOURCE/__rltf_source}" "$0" "${@:2}" >/dev/null)"
}

# True for a program that only reads. $1: its name, $2: the raw call.
__rltf_only_reads() {
    [[ $1 == [^/]* || $1 == /?(usr/)?(local/)bin/* ]] || return
    case ${1##*/} in
        arch | base64 | basename | bc | cat | comm | cut | diff | dirname | du | df | egrep | expr | \
            fgrep | free | getconf | grep | head | id | jq | ls | lscpu | md5sum | nl | nproc | od | \
            paste | printenv | ps | pwd | readlink | realpath | rev | seq | sha256sum | stat | tac | \
            tail | tr | tty | uname | wc | which | whoami) ;;
        hostname | uniq) [[ $2 != *\ [^-]* ]] ;;
        nvidia-smi) [[ $2 == *nvidia-smi?(\ @(-L|-q|--list|--query|topo)*) ]] ;;
        date) [[ $2 != *\ @(-s|--set)* ]] ;;
        sort | shuf) [[ $2 != *\ @(-*([a-zA-Z])o|--o|--compress)* ]] ;;
        sed) [[ $2 != *\ -*([a-zA-Z])@(i|-i)* ]] ;;
        awk | gawk | mawk) [[ $2 != *@(system|\>|\|*\"|getline)* ]] ;;
        find) [[ $2 != *\ -@(delete|exec|ok|fprint|fls)* ]] ;;
        git) [[ $2 == git\ ?(-C\ +([^ ])\ )@(rev-parse|describe|log|show|status|ls-files)* ]] ;;
        python | python3 | python3.[0-9]*) # where the script takes what it prints
            [[ -p /dev/fd/1 && $2 == +([^ ])\ @(-|-*([a-zA-Z])c\ *) ]] && unset PYTHONHOME
            ;;
        *) return 1 ;;
    esac
}

__rltf_name_is() { __rltf_name=${1-}; }

# Status 0 if bash may run the command. $1: the command as it is written; then the script's
# arguments.
__rltf_allows() {
    set +x -TC
    local __rltf_extglob=u __rltf_status=0
    ! shopt -q extglob || __rltf_extglob=s
    shopt -s extdebug extglob
    __rltf_decide "$@" || __rltf_status=$?
    shopt -"$__rltf_extglob" extglob
    return "$__rltf_status"
}

__rltf_decide() {
    [[ ${FUNCNAME[2]-} != __rltf_* ]] || return 0
    # bash comes here again as a function starts, with the command that calls it
    local __rltf_again=$__rltf_entry
    __rltf_entry=
    [[ $__rltf_again != "${#FUNCNAME[@]} $1" && $1 != @(for |case |select |'[[ '|'((')* ]] || return 0

    local __rltf_words __rltf_redirects __rltf_prefix __rltf_call __rltf_head __rltf_name=
    local __rltf_writes= __rltf_kind= __rltf_code=__rltf_seen __rltf_source=("${BASH_SOURCE[@]:2}")
    local __rltf_value= __rltf_input= __rltf_text=$1
    shift
    __rltf_cut "$__rltf_text"
    __rltf_writes=${__rltf_redirects//>&[0-9-]/}
    __rltf_writes=${__rltf_writes//>*( )\/dev\/@(null|stdout|stderr|tty)/}
    [[ $__rltf_writes == *\>* ]] || __rltf_writes=
    __rltf_find_head "$__rltf_words"
    if [[ -z $__rltf_head ]]; then # assignments
        [[ -z $__rltf_writes ]]
        return
    elif [[ $__rltf_head != *[\`\(]* ]]; then
        eval "__rltf_name_is $__rltf_head"
        __rltf_kind=$(type -t -- "$__rltf_name")
    fi
    case $__rltf_kind:$__rltf_name in
        function:* | builtin:@(eval|source|.)) # our trap sees what they run
            if [[ -z $__rltf_writes ]]; then
                [[ $__rltf_kind != function ]] || __rltf_entry="$((${#FUNCNAME[@]} + 1)) $__rltf_text"
                return 0
            fi
            __rltf_code=
            ;;
        builtin:exec) [[ $__rltf_call != exec || -n $__rltf_writes ]] || return 0 ;;
        builtin:@(trap|enable|kill|ulimit|suspend|builtin)) ;;
        builtin:command) [[ $__rltf_call != command\ -[vV]* ]] || return 0 ;;
        builtin:*) [[ -n $__rltf_writes ]] || return 0 ;;
        file:*)
            [[ -n $__rltf_writes || $__rltf_text == *main_* ]] ||
                ! __rltf_only_reads "$__rltf_name" "$__rltf_call" || return 0
            ;;
    esac
    [[ ! -p /dev/fd/1 ]] || __rltf_value=1
    if [[ $__rltf_redirects == *\<\<* ]]; then # of `<<EOF > file` without the file
        __rltf_input=${__rltf_redirects#*<<}
        if [[ $__rltf_input == \<* ]]; then
            __rltf_input="<<${__rltf_input%%>*}"
        else
            __rltf_input="<<${__rltf_input%%[[:space:]]*}"$'\n'${__rltf_redirects#*$'\n'}
        fi
    fi
    __rltf_run_copy "$__rltf_prefix$__rltf_code $__rltf_call $__rltf_input" "$@"
    [[ $__rltf_name != exec || $__rltf_call == exec ]] || exit 0
    return 1
}

# Note a training, or read the script in the words. Arguments: the words of a command that is not
# run.
__rltf_seen() {
    local __rltf_word __rltf_first=${1##*/} __rltf_second=${2-}
    shopt -s extglob
    for __rltf_word; do
        case $__rltf_word in
            ?(-*([a-zA-Z])m)@(verl|recipe).*([a-zA-Z0-9_.])main*([a-zA-Z0-9_]))
                __rltf_note "$@"
                return
                ;;
            *[[:space:]]*main_* | *main_*[[:space:]]*) # as of `bash -c`
                __rltf_run '' "$__rltf_word" "$0"
                return
                ;;
            [a-zA-Z_]*([a-zA-Z0-9_])=*) export "$__rltf_word" ;; # as of `env`
        esac
    done
    IFS= read -r -d '' __rltf_word
    if [[ $__rltf_word == *main_* ]]; then
        __rltf_run '' "$__rltf_word" "$0"
        return
    fi
    case $__rltf_first in
        *.@(sh|bash|slurm|sbatch) | @(|ba|da|z|k)sh | srun | sbatch | salloc | ssh | ray | nohup | env | \
            time | timeout | setsid | nice | ionice | numactl | stdbuf | sudo | docker | podman | kubectl | \
            apptainer | singularity | conda | mamba | uv | poetry | mpirun | exec | command | builtin)
            for __rltf_word; do
                if [[ -f $__rltf_word && $__rltf_word == *.@(sh|bash|slurm|sbatch) ]]; then
                    [[ $__rltf_word == */* ]] || __rltf_word=./$__rltf_word
                    __rltf_run '' '. "$0"' "$__rltf_word" "${@:2}"
                    return
                fi
                shift
            done
            ;;
    esac
    [[ $__rltf_second != [a-zA-Z./]*([a-zA-Z0-9_./-]) ]] || __rltf_first+=" $__rltf_second"
    [[ -z $__rltf_value ]] || __rltf_first="\$($__rltf_first)"
    printf '%s\0' "$__rltf_first" >>"$__rltf_folder/skipped"
}

__rltf_note() {
    local __rltf_word
    {
        printf '%s\0' "$PWD" "$#" "$@"
        compgen -e | while read -r __rltf_word; do
            printf '%s=%s\0' "$__rltf_word" "${!__rltf_word}"
        done
    } >|"$__rltf_folder/launch.$BASHPID"
}

# Read a command for as many seconds as $1, then end all that it left running.
__rltf_main() {
    (sleep "$1" && echo "(stopped after $1 s)" && kill -KILL 0) &
    # whatever the command leaves in the background has descriptor 57, whose end this waits for
    local __rltf_status
    __rltf_status=$(__rltf_seen "${@:2}" 57>&1 >&2 || echo $?)
    echo "(status ${__rltf_status:-0})"
    kill -KILL 0
}

shopt -"$__rltf_extglob" extglob
trap '__rltf_allows "$BASH_COMMAND" "$@" || ! :' DEBUG
