# a trace to export
$ millrace import "$SOURCE"/tests/golden/dftracer_2.pfw "$SOURCE"/tests/golden/dftracer_2_fork.pfw -o t > /dev/null

# each format
$ millrace export t --to perfetto -o t.perfetto-trace
> t.perfetto-trace: 20 of 20 events, ... KiB
$ millrace export t --to chrome -o t.json; python3 -c 'import json; print(sum(e["ph"] == "X" for e in json.load(open("t.json"))["traceEvents"]))'
> t.json: 20 of 20 events, ... KiB
> 20
$ millrace export t --to csv -o t.csv; head -n 1 t.csv | cut -d, -f1-3
> t.csv: 20 of 20 events, ... KiB
> begin_ns,duration_ns,level
$ millrace export t --to pfw -o t.pfw && grep -c '"ph":1' t.pfw
> t.pfw: 20 of 20 events, ... KiB
> 20

# a part of it
$ millrace export t --to csv --levels stdio -o part.csv
> part.csv: 3 of 20 events, ...
$ millrace export t --to csv --from 0.5ms --until 1ms -o part.csv
> part.csv: ... of 20 events, ...
$ millrace export t --to csv --ranks 0,3-5 -o part.csv
> part.csv: 0 of 20 events, ...

# into a pipe: only the events; a link stays a link. Not through /dev/stdout itself: a bug would replace it
$ ln -s /proc/self/fd/1 stdout; millrace export t --to csv -o stdout | wc -l
> 21
$ echo before > all.csv; millrace export t --to csv -o stdout >> all.csv; readlink stdout; wc -l < all.csv
> /proc/self/fd/1
> 22
$ mkfifo pipe; wc -l < pipe & millrace export t --to csv -o pipe > out; wait; test -p pipe
> 21
$ ln -s target.csv link.csv; millrace export t --to csv -o link.csv; readlink link.csv; wc -l < target.csv
> link.csv: 20 of 20 events, ... KiB
> target.csv
> 21

# wrong usage
$ millrace export t --to otf2 -o t.otf2
! millrace: ...otf2...
! Try: millrace export --help
? 2
$ millrace export t --to csv --ranks 5-3 -o t.csv
! millrace: --ranks: '5-3' is not a rank or a range of ranks; expected for example 0,3-5
! Try: millrace export --help
? 2
$ millrace export t --to csv --from 10 -o t.csv
! millrace: --from: ...
! Try: millrace export --help
? 2
$ millrace export t --to folded --levels posix -o t.txt
! millrace: --levels is for formats of events, not for --to folded
! Try: millrace export --help
? 2
$ millrace export t --to csv
! millrace: -o FILE is missing: output file
! Try: millrace export --help
? 2
$ millrace export t --to pfw -o t.txt
! millrace: t.txt: tools that read pfw files expect names that end in .pfw or .pfw.gz; choose such a name
? 1
$ millrace export absent --to csv -o t.csv
! millrace: absent: ...
? 1

# stacks for flame graphs, to a file, compressed, or to a pipe
$ millrace export t --to folded -o t.folded; grep pread t.folded
> t.folded: 125 B of 20 events
> pread 1
$ millrace export t --to folded -o t.folded.gz > out; gzip -dc t.folded.gz | cmp - t.folded; millrace export t --to folded -o /dev/stdout | cat | cmp - t.folded
