# fish completion for parley. Use it with: parley completion fish | source
# or store it as ~/.config/fish/completions/parley.fish.

function __parley_complete
    # The words before the cursor, without their quotes; nothing in them runs.
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l plain (string unescape -- $current 2>/dev/null)
    and set current $plain
    or set current (string trim --left --chars '"\'' -- $current)
    set -l program $words[1]
    type -q -- $program
    or set program parley
    type -q -- $program
    or return
    set -l given
    for word in $words[2..-1]
        set -l name (string match --regex --groups-only '^\$([A-Za-z_][A-Za-z0-9_]*)$' -- $word)
        and set -a given $$name
        or set -a given $word
    end
    # The value of a flag is offered without the flag.
    set -l flag (string match --regex -- '^-[^=]*=' $current)
    set -l found 0
    set -l lines ($program __complete $given "$current" 2>/dev/null)
    set -l directive (string match --regex --groups-only '^:([0-9]+)$' -- $lines[-1])
    or return
    for line in $lines[1..-2]
        if test -n "$line"
            set found 1
            printf '%s%s\n' "$flag" $line
        end
    end
    if test $found -eq 0; and test (math "bitand($directive, 5)") -eq 0
        __fish_complete_path $current
    end
end

complete --command parley --no-files --arguments '(__parley_complete)'
