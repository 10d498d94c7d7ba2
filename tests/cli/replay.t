# a program, traced and replayed
$ mkdir -p data; head -c 10000 /dev/zero > data/a; head -c 500 /dev/zero > data/b
$ millrace trace -o t -- cp data/a data/b data/missing copies 2> /dev/null
? 1
$ mkdir copies; rm -r t; millrace trace -o t -- cp data/a data/b copies > /dev/null 2>&1
$ millrace replay t --onto r --root "$PWD"
> ... calls of t (.../) onto .../r
...
> created 2 files, 10.3 KiB; they are sparse, so reads do not reach the device: use --fill to measure it
...
$ cd r; find . -type f | sort | xargs stat -c '%n %s %a'
> ./copies/a 10000 600
> ./copies/b 500 600
> ./data/a 10000 600
> ./data/b 500 600
