# a job does not differ from itself
$ cp "$SOURCE/tests/golden/profile.json" old.json; cp old.json same.json
$ millrace compare old.json same.json
>         job        hosts  ranks  epochs  steps  wall time  waiting
> before  old.json       1      2       2    100       20 s   15.0 %
> after   same.json      1      2       2    100       20 s   15.0 %
> 
> Times are per rank and step, counts and bytes per step. Differences under 10.0 %
> are not shown.
> 
> no difference of 10.0 % or more

# small reads make training wait: what changed, what it cost, and exit code 1
$ python3 "$SOURCE/tests/golden/make_profile.py" job.wall_ns=28e9 time.mean.wait_ns=105e8 time.ranks.0.wait_ns=105e8 time.ranks.1.wait_ns=105e8 functions.1.count=160000 functions.1.time_ns=48e9 functions.1.size_bytes.median=12288 layers.1.time_ns=50e9 layers.1.busy_ns=40e9 layers.1.overlapped_ns=16e9 > slow.json
$ millrace compare old.json slow.json
>         job        hosts  ranks  epochs  steps  wall time  waiting
> before  old.json       1      2       2    100       20 s   15.0 %
> after   slow.json      1      2       2    100       28 s   52.5 %
> 
> Times are per rank and step, counts and bytes per step. Differences under 10.0 %
> are not shown.
> 
>                             before   after    change
> job: +8 s of the wall time (28.6 %)
>   !  wall time              200 ms  280 ms   +40.0 %  slower
>   !  waiting for data        30 ms  105 ms  +250.0 %  slower
> layer posix: +9 s of the wall time (32.1 %)
>      time not overlapped     30 ms  120 ms  +300.0 %  slower
> function posix read: +7.2 s of the wall time (25.7 %)
>      time                    90 ms  240 ms  +166.7 %  slower
>      calls                     100     800  +700.0 %  more
>      median size          97.7 KiB  12 KiB   -87.7 %  fewer
> 
> 2 regressions, marked with !
? 1

# in the other direction there is no regression
$ millrace compare slow.json old.json | tail -1
> no regression

# another threshold, and one dimension
$ millrace compare --threshold 400% --by function old.json slow.json | tail -6
> 
>             before  after    change
> function posix read
>      calls     100    800  +700.0 %  more
> 
> no regression
$ millrace compare --threshold 300% --by function --strict old.json slow.json | tail -1
> 2 regressions, 1 not shown with this --by or --top

# a job that became faster has no regression, whatever else became slower
$ python3 "$SOURCE/tests/golden/make_profile.py" job.wall_ns=13e9 time.mean.wait_ns=5e9 > faster.json
$ millrace compare old.json faster.json | grep -A1 'note\|waiting for\|regression$'
> note: the job became faster, so what it waits for longer is no regression
> (--strict: it is)
> --
>      waiting for data   30 ms   50 ms  +66.7 %  slower
> 
> no regression

# several baselines: a regression is one against each of them
$ python3 "$SOURCE/tests/golden/make_profile.py" job.wall_ns=30e9 > noisy.json
$ millrace compare old.json noisy.json slow.json | grep '!\|note' -A1
> note: 2 baselines, whose wall time varies by 50.0 %: shown is the difference
> from the middle one, and a regression is one against each of them
> --
>   !  waiting for data        30 ms  105 ms  +250.0 %  slower
> layer posix: +9 s of the wall time (32.1 %)
> --
> 1 regression, marked with !

# JSON for programs
$ millrace compare --json old.json slow.json > c.json
? 1
$ python3 -c 'import json; d=json.load(open("c.json")); f=d["differences"][0]; print(d["format"], d["version"], d["per"], d["regressions"], f["by"], f["measure"], f["change"], f["after"], f["effect_ns"])'
> millrace-comparison 1 step 2 job wall time slower 280000000 8000000000

# two traces, and a profile with a trace
$ millrace compare "$SOURCE/tests/golden/trace.mrt" "$SOURCE/tests/golden/trace.mrt" | tail -1
> no difference of 10.0 % or more
$ millrace report --json "$SOURCE/tests/golden/trace.mrt" > t.json; millrace compare t.json "$SOURCE/tests/golden/trace.mrt" | tail -1
> no difference of 10.0 % or more
$ millrace compare "$SOURCE/tests/golden/trace.mrt" old.json | grep note
> note: ...
> ...

# an unreadable job is a failure, not a regression: nothing is printed
$ millrace compare nowhere old.json
! millrace: nowhere: no such file or directory; a trace is what `millrace trace -o` wrote
? 1
$ head -c 3000 old.json > cut.json; millrace compare cut.json old.json
! millrace: cut.json:1: ...
? 1
$ echo '{"format": "millrace-info", "version": 1}' > info.json; millrace compare info.json old.json
! millrace: info.json: not a saved profile ("format" is not "millrace-report"); create one with `millrace report --json`
? 1
$ echo '{"format": "millrace-report", "version": 9}' > new.json; millrace compare new.json old.json
! millrace: new.json: profile of version 9; this build reads version 1. Upgrade, or create it again from the trace
? 1

# wrong usage
$ millrace compare old.json
! millrace: AFTER is missing...
! Try: millrace compare --help
? 2
$ millrace compare --threshold 10 old.json slow.json
! millrace: --threshold: '10' is not a percentage, for example 10% or 2.5%
! Try: millrace compare --help
? 2
$ millrace compare --by moon old.json slow.json
! millrace: ...moon...
! Try: millrace compare --help
? 2
$ millrace compare --top many old.json slow.json
! millrace: --top: 'many' is not a whole number
! Try: millrace compare --help
? 2
