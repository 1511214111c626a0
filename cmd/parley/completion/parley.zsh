#compdef parley
# zsh completion for parley. Use it with: source <(parley completion zsh)
# or store it as _parley in a folder of $fpath.

_parley() {
	local -a given lines list
	local out line word about name flag i directive=0 tab=$'\t' program=${(Q)words[1]}
	given=("${(@Q)words[2,CURRENT-1]}")
	# Only a plain variable is replaced by its value: completion runs nothing that is typed.
	for ((i = 1; i <= $#given; i++)); do
		[[ $given[i] =~ '^\$[A-Za-z_][A-Za-z0-9_]*$' ]] && name=${given[i]#?} && given[i]=${(P)name}
	done
	whence -p -- $program >/dev/null || program=parley
	out=$($program __complete "${given[@]}" "${(Q)PREFIX}" 2>/dev/null) || return 1
	# The value of a flag is offered without the flag.
	[[ $PREFIX == -*=* ]] && flag=${PREFIX%%=*}=
	lines=("${(@f)out}")
	[[ $lines[-1] == :<-> ]] && directive=${lines[-1]#:}
	for line in "${(@)lines[1,-2]}"; do
		[[ -n $line ]] || continue
		word=$flag${line%%$tab*} about=''
		[[ $line == *$tab* ]] && about=${line#*$tab}
		word=${word//\\/\\\\}
		word=${word//:/\\:}
		list+=("$word${about:+:$about}")
	done
	if ((directive & 1)); then
		return 1
	fi
	if (($#list == 0)); then
		((directive & 4)) || _files
		return
	fi
	if ((directive & 2)); then
		_describe -t values parley list -S ''
	else
		_describe -t values parley list
	fi
}

if [[ ${funcstack[1]} == _parley ]]; then
	_parley "$@"
else
	compdef _parley parley
fi
