# a job without problems gets no findings; unknown values are listed
$ millrace advise "$SOURCE/tests/golden/profile.json"
> unknown: training waits for data 15.0 % of its time, and no rule found a cause
> no problems found in this trace
> 
> unknown   cores of the hosts (--cores), memory of the hosts (--memory), free
>           space on local disks (--local-disk), storage of the data
>           (--data-storage): rules that need these were skipped, or know less

# a finding says first what to do, then the gain, the evidence and the limit
$ python3 "$SOURCE/tests/golden/make_profile.py" checkpoints.0.stalled_ns=4e9 > stalled.json
$ millrace advise --cores 8 --memory 1GiB --local-disk 1GB --data-storage local stalled.json
> yes: training loses up to 20.0 % of its time (checkpoint stall), and waits for
> data 15.0 %
> 
> problem   checkpoint stall: 1 rank waits while one writes (checkpoint-stall)
>   pytorch checkpoint asynchronously:...
> ...
>   do      write to a local disk first, and copy from there during training
>   gain    saves up to 4 s, 20.0 % of the wall time: ...
> ...
>   seen    1 checkpoint stalled training for 4 s, 20.0 % of the wall time
>           [checkpoints]
>   seen    the longest stall took 4 s: 4 KiB written by 1 of 2 ranks
>           [checkpoints:c.pt]
>   limit   5 % of training time: ...
> ...

# options describe the machine, and rules that need it apply
$ millrace advise --memory 64GiB "$SOURCE/tests/golden/profile.json" | grep warning
> warning   the dataset fits in memory but is reread every epoch (fits-memory)

# JSON for programs
$ millrace advise --json --cores 8 --data-storage lustre stalled.json > a.json; python3 -c 'import json; d=json.load(open("a.json")); f=d["findings"][0]; print(d["format"], d["version"], d["machine"], d["verdict"]["answer"], f["rule"], f["severity"], f["gain"]["share"], f["evidence"][1]["where"])'
> millrace-advice 1 {'cores': 8, 'data_storage': 'parallel', 'checkpoint_storage': 'unknown', 'data_file_system': 'lustre'} yes checkpoint-stall problem ... checkpoints:c.pt

# all rules, for people and programs
$ millrace advise --rules | head -3
> rule                     what it looks for
> small-reads              reads too small for the file system
> few-reads-in-flight      low read concurrency on storage that serves many reads
$ millrace advise --rules --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["rules"]) >= 26)'
> True

# wrong values of options
$ millrace advise --data-storage lustr x
! millrace: --data-storage: 'lustr' is not a kind of storage; did you mean 'lustre'?...
! Try: millrace advise --help
? 2
$ millrace advise --memory 64G x
! millrace: --memory: '64G' could mean GiB (powers of 1024) or GB (powers of 1000); write which
! Try: millrace advise --help
? 2
$ millrace advise --cores 0 x
! millrace: --cores: '0' is not a number of cores (1 to 65536)
! Try: millrace advise --help
? 2
$ millrace advise
! millrace: advise needs a trace, or --rules
! Try: millrace advise --help
? 2
$ millrace advise --rules x
! millrace: --rules takes no trace
! Try: millrace advise --help
? 2
$ millrace advise x y --try
! millrace: --try takes one trace
! Try: millrace advise --help
? 2
$ millrace advise x --scratch .
! millrace: --scratch needs --try
! Try: millrace advise --help
? 2
$ millrace advise no-such-trace
! millrace: no-such-trace: ...
? 1

# a failed job is the first finding
$ for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 millrace trace -o failed -- sh -c 'exit 2'; done; millrace advise failed | grep "^problem\|^  seen"
> problem   the job failed (job-failed)
>   seen    2 of 2 ranks ended with a nonzero exit code, the first with 2
$ millrace trace -o alone -- sh -c 'exit 3'; millrace advise alone --json | python3 -c 'import json, sys; f = json.load(sys.stdin)["findings"][0]; print(f["rule"], f["severity"], f["evidence"][0]["text"])'
> job-failed problem it ended with exit code 3
