# bash completion for parley. Use it with: source <(parley completion bash)
# It needs no other package, and works in bash 3.2 and newer.

# _parley_words splits the line before the cursor as bash does, without running anything in it.
# It sets the array words and, if the last word is not complete, its text in cur.
_parley_words() {
	local line=${COMP_LINE:0:COMP_POINT} word='' quote='' inside='' c next name i
	words=()
	for ((i = 0; i < ${#line}; i++)); do
		c=${line:i:1}
		next=${line:i+1:1}
		case $quote$c in
		[[:space:]])
			[[ $inside ]] && words+=("$word")
			word='' inside=''
			continue
			;;
		\'\' | \"\") quote='' ;;
		\' | \") quote=$c ;;
		\'*) word+=$c ;;
		\\)
			word+=$next
			i=$((i + 1))
			;;
		\"\\)
			case $next in
			\" | \\ | \$ | \`)
				word+=$next
				i=$((i + 1))
				;;
			*) word+=$c ;;
			esac
			;;
		\$ | \"\$)
			name=${line:i+1}
			name=${name#\{}
			name=${name%%[!A-Za-z0-9_]*}
			if [[ $name == [A-Za-z_]* ]]; then
				word+=${!name}
				[[ $next == \{ ]] && i=$((i + 2))
				i=$((i + ${#name}))
			else
				word+=$c
			fi
			;;
		*) word+=$c ;;
		esac
		inside=1
	done
	cur=$word open=$quote
}

_parley() {
	local words cur open program out line directive values=() shown=() width=0 flag='' fits='' i strip word about
	_parley_words
	program=${words[0]}
	program=${program/#\~\//$HOME/}
	type -P -- "$program" >/dev/null || program=parley
	out=$'\n'$("$program" __complete "${words[@]:1}" "$cur" 2>/dev/null) || return 0
	directive=${out##*$'\n':} # the last line
	out=${out%$'\n':*}
	COMPREPLY=()
	[[ $directive == *[!0-9]* ]] || ((directive & 1)) && return 0
	# The value of a flag is offered without the flag.
	[[ $cur == -*=* ]] && flag=${cur%%=*}=
	# Readline replaces only what follows the last : or = of the word.
	strip=${cur%"$2"}
	while IFS= read -r line; do
		word=$flag${line%%$'\t'*} about=''
		[[ $line == *$'\t'* ]] && about=${line#*$'\t'}
		[[ $line ]] || continue
		[[ $word == "$strip"* ]] || continue
		word=${word#"$strip"}
		((${#word} > width)) && width=${#word}
		values+=("$word")
		shown+=("$about")
		[[ $strip$word == "$cur"* ]] && fits=1
	done <<<"$out"
	if [[ $(type -t compopt) == builtin ]]; then
		((directive & 2)) && compopt -o nospace
		((directive & 4)) && compopt +o default
	fi
	for ((i = 0; i < ${#values[@]}; i++)); do
		word=${values[i]}
		# Without a candidate that begins as typed, the server may know another spelling.
		[[ $fits && $strip$word != "$cur"* ]] && continue
		if ((COMP_TYPE == 63 && ${#values[@]} > 1)); then # a list that is only printed
			[[ ${shown[i]} ]] && printf -v word '%-*s  %s' "$width" "$word" "${shown[i]}"
			((COLUMNS > 8 && ${#word} > COLUMNS - 2)) && word=${word:0:COLUMNS-2}
			printf -v word '%-*s' $((COLUMNS / 2 + 1)) "$word" # one per line
		elif [[ ! $open ]]; then
			printf -v word %q "$word"
		fi
		COMPREPLY+=("$word")
	done
}

complete -o default -F _parley parley
