# the workloads that are shipped, and the rule of MLPerf Storage
$ millrace bench list | grep -c '^small \|^unet3d_h100 '
> 2
$ millrace bench datasize unet3d_h100 --accelerators 4 --memory 1TiB --nodes 2 | head -1
> dataset.num_files_train=75000
$ millrace bench workload=small --show train.epochs=3 | grep epochs:
>   epochs: 3

$ millrace bench keys | grep -A1 '^checkpoint.mode'
> checkpoint.mode = default
>     `subset`: the ranks write their part of the checkpoint of a larger job. One
$ millrace bench keys --json | python3 -c 'import json, sys; print([k["words"] for k in json.load(sys.stdin) if k["key"] == "reader.on_error"])'
> [['fail', 'skip']]

# one workload; everything else changes a key of it
$ millrace bench
! millrace: WORKLOAD is missing: a name of `millrace bench list`, or a YAML file
! Try: millrace bench --help
? 2
$ millrace bench small unet3d_h100
! millrace: unexpected argument 'unet3d_h100': the workload is 'small'; KEY=VALUE changes a key of it
! Try: millrace bench --help
? 2
$ millrace bench unet3d_h100 datasize
! millrace: unexpected argument 'datasize': the workload is 'unet3d_h100'; KEY=VALUE changes a key of it
! Try: millrace bench --help
? 2
$ millrace bench datasize small unet3d_h100 --memory 64GiB
! millrace: unexpected argument 'unet3d_h100': the workload is 'small'; KEY=VALUE changes a key of it
! Try: millrace bench datasize --help
? 2
$ millrace bench list small
! millrace: unexpected argument 'small'; usage: millrace bench list
! Try: millrace bench list --help
? 2

# each action takes its own options
$ millrace bench small --memory 64GiB
! millrace: bench takes no option '--memory'; it takes --config-dir, --scale, --show, --generate...
! Try: millrace bench --help
? 2
$ millrace bench datasize small --memory 64GiB --generate
! millrace: bench datasize takes no option '--generate'; it takes --config-dir, --scale, --accelerators, --nodes, --memory, --json
! Try: millrace bench datasize --help
? 2
$ millrace bench datasize small
! millrace: --memory SIZE is missing: memory per host, for example 256GiB
! Try: millrace bench datasize --help
? 2
$ millrace bench small --find-max-accelerators --require-au
! millrace: --find-max-accelerators and --require-au are alternatives; give one
! Try: millrace bench --help
? 2
$ millrace bench small --real-loader torch --generate
! millrace: --real-loader and --generate are alternatives; give one
! Try: millrace bench --help
? 2


# numbers are checked before anything runs
$ millrace bench small --accelerators 0
! millrace: --accelerators: '0' is not a whole number above 0
! Try: millrace bench --help
? 2
$ millrace bench small --scale -1
! millrace: --scale: '-1' is not a number above 0
! Try: millrace bench --help
? 2
$ millrace bench small --threads many
! millrace: --threads: 'many' is not a whole number
! Try: millrace bench --help
? 2
