# a table: its columns and its first row
$ printf 'id,score,text\n7,0.5,cat\n8,1,"a, b"\n9,2.5,dog\n' > train.csv; millrace inspect train.csv
> csv: 3 samples in 1 file, 45 B
> samples have 9 to 10 bytes, median 9 (of all)
>
> field  type     shape
> id     int64    []
> score  float32  []
> text   text     [3]
>
> sample 0: train.csv: record 0 at byte 14
>   id = 7
>   score = 0.5
>   text = 'cat'

# more samples, and none
$ millrace inspect -n 3 train.csv | tail -n 4
> sample 2: train.csv: record 2 at byte 35
>   id = 9
>   score = 2.5
>   text = 'dog'
$ millrace inspect -n 0 train.csv | tail -n 2
> score  float32  []
> text   text     [3]

# rows of numbers without a header; files of a directory
$ mkdir d; seq -s , 20 > d/a.csv; seq -s , 20 > d/b.csv; millrace inspect d --format csv
> csv: 2 samples in 2 files, 102 B
> each sample has 50 bytes
>
> field  type   shape
> data   int64  [20]
>
> sample 0: d/a.csv: record 0 at byte 0
>   data = [1, 2, 3, 4, 5, 6, 7, 8, ...]

# for programs
$ millrace inspect train.csv --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["format"], r["sample_count"], r["samples"][0]["fields"][2])'
> csv 3 {'name': 'text', 'type': 'text', 'shape': [3], 'value': "'cat'"}

# a .bin file with an .idx file is Megatron's
$ python3 -c 'import struct; open("t.bin", "wb").write(struct.pack("<9i", *range(9))); open("t.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQ1i1q2q", 1, 4, 1, 2, 9, 0, 0, 1))'
$ millrace inspect t.bin --window-tokens 4 | head -n 5
> megatron: 2 samples in 1 file, 36 B
> each sample has 20 bytes
>
> field   type   shape
> tokens  int32  [5]

# damage, missing files, and a directory without a format
$ printf '1,2\n3\n' > bad.csv; millrace inspect bad.csv
! millrace: bad.csv: row 2 at byte 4: has 1 cells, but the first row has 2
? 1
$ millrace inspect nothing.csv
! millrace: nothing.csv: cannot open: no such file or directory
? 1
$ millrace inspect d
! millrace: specify the format of the files in the directory: one of raw, npy, ...
? 1
$ millrace inspect train.csv --header perhaps
! ...
! Try: millrace inspect --help
? 2

# a checkpoint of TensorFlow; every tensor is compared with its checksum
$ cp "$SOURCE/tests/golden/tensorflow.ckpt.index" m.index
$ python3 -c 'open("m.data-00000-of-00001", "wb").write(b"\0\x3c" * 5 + b"\0\0\x80\x3f" * 1180)'
$ millrace inspect m.index | head -n 6
> tensorflow checkpoint: 41 tensors in 1 file, 4.62 KiB
> all checksums are right
>
> tensor        type     shape  file   byte
> layer/half    float16  [5]       0      0
> variable_000  float32  [10]      0     10
$ python3 -c 'f = open("m.data-00000-of-00001", "r+b"); f.seek(60); f.write(b"x")'
$ millrace inspect m.index
! millrace: m.data-00000-of-00001: tensor 'variable_001', 44 bytes at byte 50, has checksum ... restore an older checkpoint
? 1

# a named pipe is refused, not waited for
$ mkfifo pipe pipe.npy; timeout 60 millrace inspect --format csv pipe
! millrace: pipe: is a pipe or a socket; give the name of a file
? 1
$ timeout 60 millrace inspect pipe.npy
! millrace: pipe.npy: is a pipe or a socket; give the name of a file
? 1
$ for words in 'inspect --format hdf5' 'inspect --format raw' report info advise model 'import -o i' 'store list' 'bench run'; do timeout 60 millrace $words ./pipe > /dev/null 2>&1; test $? -eq 124 && echo "$words waits"; done; true
