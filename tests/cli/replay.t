# a program, traced and replayed
$ mkdir data copies; head -c 10000 /dev/zero > data/a; head -c 500 /dev/zero > data/b
$ millrace trace -o t -- python3 -S -c 'import os; [os.write(os.open(f"copies/{n}", os.O_WRONLY | os.O_CREAT), os.read(os.open(f"data/{n}", 0), 20000)) for n in "ab"]' > /dev/null 2>&1
$ millrace replay t --onto r --root "$PWD" > text; grep -c '^read \|^write ' text; grep created text
> 2
> created 2 files, 10.3 KiB, sparse: reads do not reach the device; use --fill to measure it
$ cd r; find . | sort | tail -n +2 | xargs stat -c '%n %s %a' | sed 's/ [0-9]* 700$/ 700/'
> ./.millrace-replay 129 600
> ./copies 700
> ./data 700
> ./data/a 10000 600
> ./data/b 500 600

# what the calls created is gone, so another replay finds the same files
$ millrace replay t --onto r --root "$PWD" | grep used
> used 2 files as they are

# a replay changes only what it has made
$ echo mine > r/copies/a; millrace replay t --onto r --root "$PWD" --clean
! millrace: .../r/copies/a exists, and the trace modifies it, but a replay changes only what it has made itself; remove it, or use a new folder
? 1
$ cat r/copies/a
> mine

# in other folders, it only reads
$ millrace replay t --onto data --root "$PWD"/data | grep '^used'
> used 2 files as they are
$ mkdir copy; cp -r data copy/; millrace replay t --onto copy --root "$PWD"
! millrace: .../copy was not made by a replay, so it is only read, but the trace creates or modifies .../copies/a; use a new folder, or select what only reads (--root, --function)
? 1
$ millrace replay t --onto "$PWD" --root "$PWD" --existing
! millrace: the trace creates or modifies .../copies/a; without --existing, it is replayed in a folder of its own
? 1
$ ls -A copy data copies
> copies:
> a
> b
>
> copy:
> data
>
> data:
> a
> b

# a part, filled with bytes, for a program; nothing stays
$ millrace replay t --onto new --root "$PWD"/data --function read --transfer-size 1KiB.. --fill --clean --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["calls"], r["prepared"]["bytes"], r["functions"][0]["replayed"]["bytes"])'
> 2 10500 10500
$ ls -d new
! ls: ...
? 2

# links out of the folder are not followed
$ mkdir outside trap; touch trap/.millrace-replay; ln -s ../outside trap/copies; millrace replay t --onto trap --root "$PWD"
! millrace: .../trap/copies is a symbolic link, but the trace has a directory there; use another folder for --onto
? 1
$ ls outside

# a trace of DFTracer
$ millrace replay "$SOURCE"/tests/golden/dftracer_1.pfw --onto other | head -n 1
> 7 calls of .../dftracer_1.pfw (/dataset) onto .../other

# wrong usage
$ millrace replay t
! millrace: --onto DIR is missing: ...
! Try: millrace replay --help
? 2
$ millrace replay t --onto r --function raed
! millrace: --function: 'raed' is not a function that can be replayed; did you mean 'read'?
! Try: millrace replay --help
? 2
$ millrace replay t --onto r --transfer-size 2..1
! millrace: --transfer-size: '2..1' is empty: the first size is larger than the second
! Try: millrace replay --help
? 2
$ millrace replay t --onto r --root data
! millrace: --root: 'data' is not absolute; names in a trace begin with /
! Try: millrace replay --help
? 2
$ millrace replay t --onto r --root /nowhere
! millrace: t: no call to replay in the selected part
? 1
