# output, errors and exit code are those of the command
$ millrace trace -o t -- sh -c 'echo out; echo err >&2; exit 3'
> out
! err
? 3
$ ls t | wc -l
> 1
# two runs are not mixed without --append
$ millrace trace -o t -- true
! millrace: .../t already holds a trace (...); choose another directory with -o, or use --append, also on all nodes of a job that you start on each of them
? 1
$ millrace trace -o t --append -- true && ls t | wc -l
> 2
# the ranks of one run share a directory; another run is rejected
$ for rank in 0 1; do PMIX_NAMESPACE=a OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank millrace trace -o r -- true || break; done; ls r | wc -l
> 2
$ PMIX_NAMESPACE=b OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 millrace trace -o r -- true
! millrace: .../r already holds a trace (of run a, and this is b); choose another directory with -o, or use --append, also on all nodes of a job that you start on each of them
? 1
$ SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 millrace trace -o s -- true
$ SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 millrace trace -o s -- true
$ SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 millrace trace -o s -- true
! millrace: .../s already holds a trace (of run 7.0, and this is 7.1); choose another directory with -o, or use --append, also on all nodes of a job that you start on each of them
? 1
$ SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 millrace trace -o s --append -- true && millrace info s | head -1
> 1 host, 3 sessions, 2 ranks, 3 processes, 3 threads
$ SLURM_JOB_ID=8 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 millrace trace -o t -- true
! millrace: .../t already holds a trace (...); choose another directory with -o, or use --append, also on all nodes of a job that you start on each of them
? 1
$ millrace trace -o s -- true
! millrace: .../s already holds a trace (...); choose another directory with -o, or use --append, also on all nodes of a job that you start on each of them
? 1
# an unknown command fails as in a shell, and leaves nothing
$ millrace trace -o u -- no-such-command
! millrace: cannot run 'no-such-command': no such file or directory
? 127
$ ls u
# if a signal kills the command, it kills millrace, too
$ sh -c 'millrace trace -o v -- sh -c "kill -TERM \$\$"; echo $?' 2> /dev/null
> 143
# wrong usage
$ millrace trace -o w
! millrace: ...
! Try: millrace trace --help
? 2
$ millrace trace --levels posix,stdoi -- true
! millrace: ...'stdoi' is not a level; did you mean 'stdio'?; there are posix, stdio, mpiio, hdf5, app
! Try: millrace trace --help
? 2
# only the selected levels and files
$ echo hello > f; millrace trace -o x --levels stdio --include '*/f' -- sh -c 'cat f; sed -n p f' > out
$ millrace export x --to csv -o x.csv > out && cut -d, -f3,6 x.csv | sed 's|/.*/||' | sort -u
> level,file
> stdio,f
# without a launcher
$ MILLRACE_TRACE_DIR=y LD_PRELOAD="$(dirname "$(command -v millrace)")/../lib/libmillrace_trace.so" cat f
> hello
$ millrace compact y > packed
$ ls y
> ....mrt

# a limit on the size of files does not end the command
$ bash -c 'ulimit -f 100; millrace trace -o limited -- sh -c "echo alive; exit 5"; echo $?'
> alive
> 5
! ...ulimit -f...
