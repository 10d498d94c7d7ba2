# one file, read back and compared; and back again
$ printf 'id,score,text\n7,0.5,cat\n8,0.1,"a, b"\n' > train.csv; millrace convert train.csv train.jsonl --to jsonl --verify
> train.jsonl: 2 samples in 1 file of jsonl, 79 B, read back and equal
$ cat train.jsonl
> {"id": 7, "score": 0.5, "text": "cat"}
> {"id": 8, "score": 0.1, "text": "a, b"}
$ millrace convert train.jsonl again.csv --to csv > /dev/null; diff train.csv again.csv

# a directory: a new file per source file, or larger ones
$ mkdir d; for i in 1 2 3; do printf '{"x": %d}\n' $i > d/$i.jsonl; done
$ millrace convert d out --format jsonl --to tar; ls out
> out: 3 samples in 3 files of tar, ... KiB
> 1.tar
> 2.tar
> 3.tar
$ millrace convert d packed --format jsonl --to indexed --samples-per-file 2 --verify; ls packed
> packed: 3 samples in 2 files of indexed, ... B, read back and equal
> samples-00000.mrd
> samples-00000.mrx
> samples-00001.mrd
> samples-00001.mrx

# an error leaves nothing, and nothing is replaced
$ printf '{"x": }\n' > d/4.jsonl; millrace convert d broken --format jsonl --to tar
! millrace: d/4.jsonl: record 0 at byte 0: json:1: expected a value, found '}'
? 1
$ ls -A broken
$ millrace convert train.csv train.jsonl --to jsonl
! millrace: train.jsonl: exists; remove it or choose another destination
? 1
$ millrace convert train.csv train.raw --to raw
! millrace: ...
? 1
$ ls -A | grep -c millrace
> 0
? 1

# wrong usage
$ millrace convert train.csv --to jsonl
! ...
! Try: millrace convert --help
? 2
