# a recording as a program leaves it, written by a script from the format's page
$ python3 "$SOURCE/tests/golden/make_recording.py" recording t
$ millrace info t
> 1 host, 1 session, 2 ranks, 2 processes, 3 threads
> 109 events of 3 files, from 2023-11-14 22:13:20 UTC, for 149 us
> 
> level  call         events  errors     time    bytes
> posix                  108       1  77.4 us  400 KiB
>        read            101          70.5 us  400 KiB
>        posix_spawn       1             5 us
>        mmap              1           900 ns
>        open              2       1   700 ns
>        lseek             1           200 ns
>        close             1           100 ns
>        mapped            1            10 ns
> app                      1           110 us
>        region            1           110 us
> 
> process  rank  events  ended   host   command
>      42     0     108  exit 0  node7  python3 train.py
>      50     1       1  exit 3  node7  python3 train.py
> 
> lost
>   lost 17 events of process 42 from 200 us on: no space left on device
> 
> not itemised
>   mapped files: 1 mmap call; of 64 KiB in 1 mapping that ended, 16 KiB were in
>     memory: an upper bound on what was read through them
>   bin/no-such-helper was started 1 time and left no events: its file does not
>     exist
>   page faults of ended processes: 3 that waited for a device, 900 that did not
>   clock of node7: one host; off by at most 50 ns

# a session's directory is a trace too
$ millrace info t/node7-11111111 | head -1
> 1 host, 1 session, 2 ranks, 2 processes, 3 threads

# JSON for programs
$ millrace info --json t > i.json; python3 -c 'import json; d=json.load(open("i.json")); print(d["format"], d["version"], d["events"], d["losses"][0]["errno"], d["processes"][1]["exit_code"], d["not_itemised"]["untraced_programs"][0]["times"], d["problems"])'
> millrace-info 1 109 28 3 1 []

# a packed trace, made by the same script
$ millrace info "$SOURCE/tests/golden/trace.mrt" | head -2
> 1 host, 1 session, 1 rank, 1 process, 1 thread
> 4 events of 1 file, from 2023-11-14 22:13:20 UTC, for 4 us

# several directories are one job; unusable ones are named
$ mkdir u; cp "$SOURCE/tests/golden/trace.mrt" u/; millrace info t u | head -2
> 1 host, 2 sessions, 2 ranks, 3 processes, 4 threads
> 113 events of ... files, from 2023-11-14 22:13:20 UTC, for ...
$ millrace info t nowhere | grep -A2 '^problems'
> problems
>   nowhere: no such file or directory...
> ...

# damage is reported, and the rest is read
$ head -c 1000 "$SOURCE/tests/golden/trace.mrt" > cut.mrt; millrace info cut.mrt | grep -A9 '^problems'
> problems
>   cut.mrt: has no index at its end: its writer was stopped, or is still
>     running. The intact blocks were read one by one
>   cut.mrt: the file ends at byte 1000, in the middle of the block at byte ...

# not a trace
$ millrace info nowhere
! millrace: nowhere: no such file or directory; a trace is what `millrace trace -o` wrote
? 1
$ mkdir empty; millrace info empty
! millrace: empty: contains no trace: neither *.mrt files nor recordings
? 1
$ echo hello > no.mrt; millrace info no.mrt
! millrace: no.mrt: 6 bytes are too few for a packed trace
? 1
$ millrace info
! millrace: TRACE is missing...
! Try: millrace info --help
? 2
