# the version, and for each part whether it is built in and why
$ millrace --version
> millrace 0.1.0 (...)
>   o... yaml: YAML workload and configuration files (...)
>   o... gzip: compressed traces of other tools (.gz) (...)
>   o... deflate: fast reading of gzip in HDF5, npz and Parquet (...)
>   o... mpi: runs of several ranks under mpirun or srun (...)
>   o... sqlite: SQL over traces (millrace query) (...)
>   o... jpeg: JPEG samples (...)
>   o... png: PNG samples (...)
>   o... hdf5: HDF5 samples (...)
>   o... uring: many reads in flight by io_uring (...)
>   o... lz4: packs with files that are compressed by lz4 (...)
>   o... fuse: packs as mounted file systems (millrace store mount) (...)
>   o... python: the Python package in the build tree (...)
>   o... bindings: the loader in Python (millrace.DataLoader) (...)
$ millrace -V | head -1
> millrace 0.1.0 (...)
$ millrace --version --json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["version"], [p["name"] for p in d["parts"]])'
> 0.1.0 ['yaml', 'gzip', 'deflate', 'mpi', 'sqlite', 'jpeg', 'png', 'hdf5', 'uring', 'lz4', 'fuse', 'python', 'bindings']
$ millrace --version --all
! millrace: --version accepts only --json, not '--all'
! Try: millrace --help
? 2
