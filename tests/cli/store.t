# pack a directory, list it, verify it
$ mkdir -p data/train data/val; for i in 1 2 3; do printf 'sample %d\n' $i > data/train/$i; done; printf 'v\n' > data/val/1; ln -s ../val/1 data/train/link
$ chmod 644 data/*/?; touch -h -d '2024-01-02 03:04:05 UTC' data/*/* data/* data
$ millrace store pack data -o packs --partitions 2 --broadcast 'val/**'
> packs: 4 files of 29 B in 3 partitions of ... s, ...
$ ls packs
> broadcast.pack
> catalogue
> part-00000.pack
> part-00001.pack
$ millrace store list packs
> train
> train/1
> train/2
> train/3
> train/link
> val
> val/1
$ millrace store list packs --long | grep 'train/1\|train/link\|val/1\|packed'
> -rw-r--r--            9            9 raw       0 2024-01-02 03:04:05 UTC  train/1
> lrwxrwxrwx            0            0 -         - 2024-01-02 03:04:05 UTC  train/link -> ../val/1
> -rw-r--r--            2            2 raw       2 2024-01-02 03:04:05 UTC  val/1
> 4 files of 29 B in 3 partitions of ... KiB, packed from ...data
$ millrace store verify packs
> packs: 4 files of 29 B in 3 partitions, all checksums are right
$ millrace store list packs --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["files"], d["entries"][-1]["path"], d["entries"][-1]["broadcast"])'
> 4 val/1 True

# extract all of it, or a part
$ millrace store extract packs -o out; diff -r data out; readlink out/train/link
> out: 4 files of 29 B
> ../val/1
$ millrace store extract packs -o part 'train/[12]'; find part -type f | sort
> part: 2 files of 18 B
> part/train/1
> part/train/2
$ millrace store extract packs -o part
! millrace: part: is not empty; choose a new directory
? 1

# a partition alone; the catalogue can be written again
$ millrace store list packs/broadcast.pack
> val
> val/1
$ cp packs/catalogue before; rm packs/catalogue; millrace store verify packs
! millrace: packs: has no catalogue: it is not a pack, or packing was not completed. Run `millrace store pack` again
? 1
$ millrace store pack packs/*.pack -o packs; cmp before packs/catalogue
> packs: the catalogue of 3 partitions is written

# damage is named, with its place
$ printf 'X' | dd of=packs/part-00000.pack bs=1 seek=66 conv=notrunc 2> /dev/null; millrace store verify packs
> packs: 1 problem
! millrace: 'train/1' in part-00000.pack at byte 64: the checksum is ..., but must be .... Copy the partition again, or pack again
? 1

# nothing is replaced, and mistakes are named
$ millrace store pack data -o packs
! millrace: packs: has a complete pack already; remove it or choose another directory
? 1
$ millrace store pack data -o data/packs
! millrace: data/packs: is inside of the directory that is packed; choose another place
? 1
$ millrace store pack data -o other --broadcast 'vall/**'; ls -d other
! millrace: --broadcast 'vall/**' matches no file; give a glob of paths below the source, such as 'val/**'
! ls: cannot access 'other': No such file or directory
? 2
$ millrace store pack nothing -o other
! millrace: nothing: cannot open: no such file or directory
? 1
$ millrace store pack data
! millrace: -o DIR is missing: the directory of the new pack
! Try: millrace store pack --help
? 2
$ millrace store list other
! millrace: other: no such pack
? 1

# tar files are not copied
$ tar cf one.tar -C data train; tar cf two.tar -C data val; millrace store pack one.tar two.tar -o tars; ls tars
> tars: 4 files of 29 B in 2 tar files, which stay where they are
> catalogue
$ millrace store verify tars
> tars: 4 files of 29 B in 2 partitions, all checksums are right

# a store that is not running; tests/store/service_test.py has those that are
$ millrace store status --local .
> no store is running
$ millrace store down --local .
! millrace: no store is running in ./millrace-store-...; start one with `millrace store up`
? 1
$ millrace store run --pack packs --at /data --local .
! millrace: the program to run is missing; put it after --
! Try: millrace store run --help
? 2
$ millrace store run --pack packs --local . -- true
! millrace: --at PATH is missing: the path under which programs see the files
! Try: millrace store run --help
? 2
$ millrace store up --at /data
! millrace: --pack DIR is missing: the directory of the pack
! Try: millrace store up --help
? 2
$ millrace store mount
! millrace: DIR is missing: where to mount; it must exist
! Try: millrace store mount --help
? 2
$ millrace store warm --node nothing
! millrace: nothing/state: cannot open: no such file or directory
? 1

# each action takes its own options, and names them
$ millrace store list packs --fast --replicas 3
! millrace: store list takes no option '--fast'; it takes --long, --json
! Try: millrace store list --help
? 2
$ millrace store list packs --threads 2
! millrace: store list takes no option '--threads'; it takes --long, --json
! Try: millrace store list --help
? 2
$ millrace store verify packs -o out
! millrace: store verify takes no option '-o'; it takes --threads
! Try: millrace store verify --help
? 2
$ millrace store extract packs -o out2 --codec none; ls out2
! millrace: store extract takes no option '--codec'; it takes --output, --threads
! Try: millrace store extract --help
! ls: cannot access 'out2': No such file or directory
? 2
$ millrace store pack data -o other --at /data
! millrace: store pack takes no option '--at'; it takes --output, --partitions, --codec, --broadcast, --threads
! Try: millrace store pack --help
? 2
$ millrace store status --capacity 1GiB
! millrace: store status takes no option '--capacity'; it takes --node, --local, --json
! Try: millrace store status --help
? 2
$ millrace store down --force
! millrace: store down takes no option '--force'; it takes --node, --local
! Try: millrace store down --help
? 2
$ millrace store unmount --background mnt
! millrace: store unmount takes no option '--background'; it takes no options
! Try: millrace store unmount --help
? 2
$ millrace store run --packs packs --at /data -- true
! millrace: store run takes no option '--packs'; did you mean '--pack'?
! Try: millrace store run --help
? 2

# and its own number of arguments
$ millrace store list
! millrace: PACK is missing: the directory of a pack, or one of its .pack files
! Try: millrace store list --help
? 2
$ millrace store verify packs more
! millrace: unexpected argument 'more'; usage: millrace store verify [OPTIONS] PACK
! Try: millrace store verify --help
? 2
$ millrace store status more
! millrace: unexpected argument 'more'; usage: millrace store status [OPTIONS]
! Try: millrace store status --help
? 2
$ millrace store down -- true
! millrace: unexpected argument 'true'; usage: millrace store down [OPTIONS]
! Try: millrace store down --help
? 2
$ millrace store run --pack packs --at /data true
! millrace: unexpected argument 'true'; usage: millrace store run [OPTIONS] -- COMMAND [ARGUMENTS...]
! Try: millrace store run --help
? 2
$ millrace store pack data part -o other
! millrace: store pack takes one directory, or .tar files, or .pack files, not 2 other things
! Try: millrace store pack --help
? 2

# options that exclude each other, or need each other
$ millrace store pack one.tar two.tar -o other --codec zstd
! millrace: --codec is for a directory; .tar and .pack files stay as they are
! Try: millrace store pack --help
? 2
$ millrace store up --pack packs --at /data --hosts a --hostfile b
! millrace: --hostfile and --hosts are alternatives; give one
! Try: millrace store up --help
? 2
$ millrace store warm --order epochs.txt 'val/**'
! millrace: GLOB and --order are alternatives; give one
! Try: millrace store warm --help
? 2
$ millrace store flush --left buffer --wait
! millrace: --left and --wait are alternatives; give one
! Try: millrace store flush --help
? 2
$ millrace store mount mnt --origin data
! millrace: --origin needs --pack
! Try: millrace store mount --help
? 2
$ millrace store mount mnt --pack packs --node n
! millrace: --pack and --node are alternatives; give one
! Try: millrace store mount --help
? 2

# an action is needed, and comes first
$ millrace store
! millrace: store needs an action; its actions are pack, list, verify, extract, run, up, status, warm, flush, down, mount, unmount
! Try: millrace store --help
? 2
$ millrace store replicate packs
! millrace: store has no action 'replicate'; its actions are pack, list, verify...
! Try: millrace store --help
? 2
$ millrace store lsit packs
! millrace: store has no action 'lsit'; did you mean 'list'?
! Try: millrace store --help
? 2
$ millrace store --long list packs
! millrace: store has no action '--long'; its actions are pack...
! Try: millrace store --help
? 2

# the help of an action has only what the action takes
$ millrace store --help | head -1; millrace store --help | grep -c -- '^  --'
> Usage: millrace store ACTION ...
> 0
? 1
$ millrace store verify --help | grep -v '^Reads\|^the ranks\|^$'
> Usage: millrace store verify [OPTIONS] PACK
> ...
> Arguments
>   PACK  the directory of a pack, or one of its .pack files
> Options
>   --threads N  threads that work (all CPUs)
>   -h, --help   print this help and exit
> Examples
> ...
$ millrace help store verify > one; millrace store verify -h | diff one -
