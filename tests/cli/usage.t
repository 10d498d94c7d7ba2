# no verb is wrong usage, and prints the help
$ millrace
! Usage: millrace VERB [OPTIONS] [ARGUMENTS]
! ...
? 2

# help goes to standard output, with exit code 0
$ millrace --help | head -3
> Usage: millrace VERB [OPTIONS] [ARGUMENTS]
>
> Millrace shows where deep-learning training waits for its data, and removes the wait.
$ millrace help doctor | head -1
> Usage: millrace doctor [OPTIONS] [DIR...]
$ millrace doctor --help | head -1
> Usage: millrace doctor [OPTIONS] [DIR...]
$ millrace doctor -h | grep -A3 ^Examples
> Examples
>   millrace doctor
> ...

# a mistyped verb or option gets a suggestion
$ millrace docter
! millrace: unknown verb 'docter'; did you mean 'doctor'?
! Try: millrace --help
? 2
$ millrace doctor --jsn
! millrace: doctor takes no option '--jsn'; did you mean '--json'?
! Try: millrace doctor --help
? 2
$ millrace doctor --replicas 3
! millrace: doctor takes no option '--replicas'; it takes --size, --no-speed, --mpi, --json
! Try: millrace doctor --help
? 2
$ millrace completion bash zsh
! millrace: unexpected argument 'zsh'; usage: millrace completion SHELL
! Try: millrace completion --help
? 2
$ millrace pack t
! millrace: unknown verb 'pack'
! Try: millrace --help
? 2
$ millrace help nothing
! millrace: unknown verb 'nothing'
! Try: millrace --help
? 2
$ millrace --json doctor
! millrace: option '--json' must come after a verb
! Try: millrace --help
? 2
$ millrace doctor --size 64K
! millrace: --size: '64K' could mean KiB (powers of 1024) or kB (powers of 1000); write which
! Try: millrace doctor --help
? 2
$ millrace completion
! millrace: SHELL is missing: the shell
! Try: millrace completion --help
? 2
$ millrace completion tcsh
! millrace: 'tcsh' is not one of bash, zsh, fish
! Try: millrace completion --help
? 2

# a full disk behind a redirection is an error, not silence
$ millrace --help > /dev/full
! millrace: standard output: cannot write: no space left on device; free some space (df -h, df -i) or choose another directory
? 1
