# the workload of a job: each value with its reason, assumptions first
$ millrace model "$SOURCE/tests/clinic/traces/npz_shards.json" --name shards -o w.yaml
$ grep -v "^$" w.yaml | head -6
> # shards: the I/O of `...`, as `millrace model` found it in a trace.
> #
> # Assumed, because the trace does not show it:
> # - Each worker prefetches 2 batches.
> model:
>   name: shards                              # the command of the job
$ grep "format\|num_\|batch_size\|read_threads\|shuffle\|epochs" w.yaml
>   format: npz                               # 10 data files named *.npz; 217 MB were read from them
>   num_files_train: 10                       # 10 data files named *.npz
>   num_samples_per_file: 32                  # 320 samples in an epoch
>   batch_size: 16                            # 320 samples in 20 steps of an epoch
>   read_threads: 2...
>   file_shuffle: seed                        # a new order every epoch
>   sample_shuffle: seed                      # a new order every epoch
>   epochs: 11                                # epochs that regions mark

# without -o it is printed
$ millrace model "$SOURCE/tests/clinic/traces/no_shuffle.json" | grep "^  .*_shuffle: "
>   file_shuffle: "off"                       # read by name and offset
>   sample_shuffle: "off"                     # read by name and offset

# records of a TFRecord file, and few files that were not read by name
$ millrace model "$SOURCE/tests/clinic/traces/tfrecord_fields.json" | grep "  format\|num_samples\|record_length\|file_shuffle"
>   format: tfrecord
>   num_samples_per_file: 750                 # 3,000 samples in an epoch
>   record_length_bytes: 8196                 # 24.6 MB in 4 files, 750 samples each
>   file_shuffle: seed

# checkpoints every few steps, with fsync
$ millrace model "$SOURCE/tests/clinic/traces/checkpoint_often.json" | grep "steps_between\|fsync\|model_size"
>   model_size_bytes: 6413061                 # median of the bytes of a checkpoint
>   steps_between_checkpoints: 10             # 20 checkpoints in 200 steps
>   fsync: true                               # 20 fsync calls on checkpoint files

# JSON for programs
$ millrace model "$SOURCE/tests/clinic/traces/gzip_samples.json" --json | python3 -c 'import json, sys; d = json.load(sys.stdin); k = {x["key"]: x["value"] for x in d["keys"]}; print(d["format"], d["version"], d["ranks"], k["dataset.format"], k["reader.batch_size"], k["train.epochs"], [x["key"] for x in d["keys"] if x["assumed"]])'
> millrace-model 1 1 npz 10 4 []

# a trace without data, and wrong usage
$ millrace trace -o t -- true; millrace model t
! millrace: t: the job read no data files, made no steps and wrote no checkpoints: there is nothing to model
? 1
$ millrace model t --scale 0.1
! millrace: --scale needs --check
! Try: millrace model --help
? 2
$ millrace model t --scratch .
! millrace: --scratch needs --check
! Try: millrace model --help
? 2
$ millrace model t --check --scale 2
! millrace: --scale: '2' is not a number above 0, up to 1
! Try: millrace model --help
? 2
$ millrace model no-such-trace
! millrace: no-such-trace: ...
? 1
