# a job that has not started: --once fails, and JSON has the state
$ millrace top --once nowhere
! millrace: nowhere: nothing is recorded yet; the job has not started
? 1
$ mkdir empty; millrace top --once --json empty | grep state
>   "state": "waiting",
$ millrace top --once --json empty >/dev/null
? 1

# a job that has ended, as a recording and packed
$ python3 "$SOURCE/tests/golden/make_recording.py" recording t
$ millrace top t
> t: the job has ended; `millrace report` shows what it did
$ millrace top --once t
! millrace: t: the job has ended; `millrace report` shows what it did
? 1
$ mkdir packed; cp "$SOURCE/tests/golden/trace.mrt" packed/; millrace top packed
> packed: the job has ended; `millrace report` shows what it did

# a running job: reads 4096 bytes repeatedly, until it is stopped or the transcript ends
$ (millrace trace -o live -- sh -c 'while ! test -e stop && kill -0 $0; do dd if=/dev/zero of=/dev/null bs=4096 count=100 2>/dev/null; done' $PPID >/dev/null 2>&1 &) ; until test -d live && ls live/*/*.rings >/dev/null 2>&1; do sleep 0.05; done
$ until millrace top --once --interval 500ms live > shown && grep -q '^reads .*B/s' shown && grep -q '^writes .*B/s' shown; do :; done; cat shown
> live: started ... ago, showing the last ...
> 1 host, ... no ranks; no events lost
> 
> calls ... per second ... bandwidth ... mean ... longest
> reads ...B/s ...
> writes ...B/s ...
> opens ...
> metadata ...
> others ...
> 
> ... calls at a time
> in I/O ... of the time (any thread of the main process)
> 
> process  epoch  step ... in I/O  command
> ...
$ until millrace top --once --json --interval 200ms live > live.json && python3 -c 'import json; exit(json.load(open("live.json"))["window"]["reads"]["bytes"] == 0)'; do :; done; touch stop; python3 -c 'import json; d = json.load(open("live.json")); print(d["format"], d["version"], d["state"], d["window"]["reads"]["bytes"] > 0, d["window"]["reads"]["bytes"] % 4096 == 0 or d["files"][0]["path"])'
> millrace-top 1 running True ...
$ until test -z "$(ls live | grep -v mrt)"; do sleep 0.05; done; millrace top --interval 50ms live
> live: the job has ended; `millrace report` shows what it did

# not a job
$ mkdir other; touch other/notes.txt; millrace top other
! millrace: other: contains no trace: neither *.mrt files nor recordings. Pass the directory that `millrace trace -o` records into
? 1
$ millrace top other/notes.txt
! millrace: other/notes.txt: not a directory; pass the directory that `millrace trace -o` records into
? 1

# an interval is a duration within limits
$ millrace top --interval 5 t
! millrace: --interval: ...
! Try: millrace top --help
? 2
$ millrace top --interval 1ms t
! millrace: --interval: 1 ms is not between 50 ms and 1 h ...
! Try: millrace top --help
? 2
