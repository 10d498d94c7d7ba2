# a job with no problem gets no findings; what was not known is said
$ millrace advise "$SOURCE/tests/golden/profile.json"
> nothing in this trace is worth a change
> 
> not known the nodes' memory (--memory), their local disks (--local-disk), where
>           the data lie (--data-storage): what depends on it was not judged

# a finding has evidence, limit, gain and what to change in the framework in use
$ python3 "$SOURCE/tests/golden/make_profile.py" checkpoints.0.stalled_ns=4e9 > stalled.json
$ millrace advise --memory 1GiB --local-disk 1GB --data-storage local stalled.json
> problem   1 rank waits while one writes the checkpoint (checkpoint-stall)
>   seen    in 1 checkpoint nobody computed for 4 s, 20.0 % of the wall time
>           [checkpoints]
>   seen    the longest stopped training for 4 s: 4 KiB by 1 of 2 ranks
>           [checkpoints:c.pt]
>   limit   5 % of the wall time: ...
> ...
>   gain    up to 4 s, 20.0 % of the wall time: ...
> ...
>   pytorch torch.distributed.checkpoint.async_save(state, ...
> ...
>   change  write to a local disk first, and copy from there beside training

# what the trace does not tell is said by options, and rules that need it speak
$ millrace advise --memory 64GiB "$SOURCE/tests/golden/profile.json" | head -2
> warning   the dataset fits into the memory of a node, and is fetched every epoch
>           (fits-memory)

# JSON that programs read
$ millrace advise --json --data-storage lustre stalled.json > a.json; python3 -c 'import json; d=json.load(open("a.json")); f=d["findings"][0]; print(d["format"], d["version"], d["machine"], f["rule"], f["severity"], f["gain"]["share"], f["evidence"][1]["where"])'
> millrace-advice 1 {'data_storage': 'parallel', 'checkpoint_storage': 'unknown', 'data_file_system': 'lustre'} checkpoint-stall problem ... checkpoints:c.pt

# all rules, for people and programs
$ millrace advise --rules | head -3
> rule                     what it looks for
> small-reads              transfers too small for the file system
> few-reads-in-flight      one read at a time from storage that serves many
$ millrace advise --rules --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["rules"]) >= 26)'
> True

# wrong words
$ millrace advise --data-storage lustr x
! millrace: --data-storage: 'lustr' is no storage; did you mean 'lustre'?...
! Try: millrace advise --help
? 2
$ millrace advise --memory 64G x
! millrace: --memory: '64G' could mean GiB (powers of 1024) or GB (powers of 1000); write which
! Try: millrace advise --help
? 2
$ millrace advise no-such-trace
! millrace: no-such-trace: ...
? 1

# a job that failed is said to have failed, before anything else
$ for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 millrace trace -o failed -- sh -c 'exit 2'; done; millrace advise failed | head -2
> problem   the job failed (job-failed)
>   seen    2 of 2 ranks ended with another exit code than 0, the first with 2
$ millrace trace -o alone -- sh -c 'exit 3'; millrace advise alone --json | python3 -c 'import json, sys; f = json.load(sys.stdin)["findings"][0]; print(f["rule"], f["severity"], f["evidence"][0]["text"])'
> job-failed problem it ended with exit code 3
