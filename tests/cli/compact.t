# compaction keeps the content of a trace, and removes the recording
$ python3 "$SOURCE/tests/golden/make_recording.py" recording t
$ millrace info t > before; millrace compact t
> t/node7-11111111: 109 events compacted into t/node7-11111111.mrt (...)
$ ls t
> node7-11111111.mrt
$ millrace info t > after; diff before after

# compacting again does nothing
$ millrace compact t
> t: no recordings to compact

# recordings of processes on other hosts that did not report their exit are kept and listed
$ python3 "$SOURCE/tests/golden/make_recording.py" recording u && python3 -c 'f=open("u/node7-11111111/50-f4244.rings", "r+b"); f.seek(140); f.write(bytes(4))'
$ millrace compact u
> u/node7-11111111: 108 events compacted into u/node7-11111111.mrt (...)
>   process 50 (python3 train.py) may still be running on node7; if not, use --ended
$ ls u/node7-11111111
> 50-f4244.rings
> names
> session
$ millrace info u | head -2
> 1 host, 1 session, 2 ranks, 2 processes, 3 threads
> 109 events of 3 files, from 2023-11-14 22:13:20 UTC, for 149 us
$ millrace compact --ended u
> u/node7-11111111: 1 event compacted into u/node7-11111111.mrt (...)
$ ls u
> node7-11111111.mrt
$ millrace info u | head -2
> 1 host, 1 session, 2 ranks, 2 processes, 3 threads
> 109 events of 3 files, from 2023-11-14 22:13:20 UTC, for 149 us

# not a directory
$ millrace compact nowhere
! millrace: nowhere: not a directory; give one that was recorded into
? 1
