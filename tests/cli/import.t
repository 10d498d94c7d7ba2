# traces of both DFTracer generations
$ millrace import "$SOURCE"/tests/golden/dftracer_1.pfw -o older
> older/dftracer_1.mrt: 9 events of 1 process, from 1 file of 2.82 KiB of text
$ millrace import "$SOURCE"/tests/golden/dftracer_2.pfw "$SOURCE"/tests/golden/dftracer_2_fork.pfw -o newer
> newer/dftracer_2.mrt: 20 events of 2 processes, from 2 files of 7.67 KiB of text

# its events: names of older C libraries, items as bytes, unknown calls as regions
$ millrace export older --to csv -o older.csv > /dev/null; cut -d, -f3-9 older.csv | tr -d '\r' | tail -n +2 | sort
> app,region,TFReader.parse,,,,0
> app,region,numpy.load,,,,0
> posix,close,close,/dataset/train/0001.npz,,0,0
> posix,lseek,lseek,/dataset/train/0001.npz,512,0,512
> posix,open,open,/dataset/train/0001.npz,,0,4
> posix,pread,pread,/dataset/train/0001.npz,8192,4096,100
> posix,read,read,/dataset/train/0001.npz,,4096,4096
> posix,stat,stat,"/dataset/a ""name"" of café",,0,0
> stdio,fread,fread,"/dataset/a ""name"" of café",,8192,5120

# a directory stands for its files; a truncated file is read as far as possible
$ mkdir logs; head -c 2500 "$SOURCE"/tests/golden/dftracer_1.pfw > logs/torn.pfw; echo text > logs/other; millrace import logs -o torn
> torn/torn.mrt: 8 events of 1 process, from 1 file of 2.44 KiB of text
! millrace: warning: logs/torn.pfw:15: the last line is cut off; everything before it was read

# an existing trace is not overwritten
$ millrace import logs -o torn
! millrace: torn/torn.mrt already exists; remove it, or choose another directory
? 1

# nothing to read
$ mkdir empty; millrace import empty -o t
! millrace: empty: no .pfw or .pfw.gz files in this directory; give the files
? 1
$ millrace import absent.pfw -o t
! millrace: absent.pfw: cannot open: no such file or directory
? 1
$ millrace import logs/other -o t
> t/other.mrt: 0 events of 0 processes, from 1 file of 5 B of text
! millrace: warning: logs/other: contains no events
! millrace: warning: logs/other:1: ...; the line was skipped
$ millrace import logs/torn.pfw
! millrace: -o DIR is missing: directory for the trace; created if missing
! Try: millrace import --help
? 2

# traces of torch.profiler: what the GPU did
$ echo '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1700000000000000, "dur": 2, "args": {"stream": 7}}]}' > gpu.json
$ millrace import gpu.json -o profiled
> profiled/gpu.mrt: 1 event of 1 process, from 1 file of 118 B of text
$ echo '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "mm", "ts": 1, "dur": 2}]}' > host.json
$ millrace import host.json -o profiled
> profiled/host.mrt: 0 events of 0 processes, from 1 file of 81 B of text
! millrace: warning: host.json: no work of a GPU among 1 events; profile with ProfilerActivity.CUDA
$ echo '{"traceEvents": [{"ph": "X"' > torn.json; millrace import torn.json -o profiled
! millrace: torn.json: is damaged or cut off: byte 28 is not JSON
? 1
$ millrace import gpu.json logs/torn.pfw -o mixed
! millrace: 1 of 2 files are traces of torch.profiler (.json); import them on their own
? 1
