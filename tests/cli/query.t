# the tables and columns
$ millrace query --schema | grep -A3 '^events\|^processes'
> events: every call and region
>   name        TEXT     name of the call or region
>   layer       TEXT     application, loader, format, mpiio, stdio or posix
>   file        TEXT     path; NULL: a region, or a call without a file
> --
> processes: every program that ran
>   process            INTEGER  row number: pids are reused, exec keeps them
>   pid                INTEGER  process ID
>   parent             INTEGER  pid of the process that started it
$ millrace query --schema --json | python3 -c 'import json, sys; print([t["table"] for t in json.load(sys.stdin)])'
> ['events', 'files', 'regions', 'processes']
$ millrace query --schema | tr -s ' ' | grep -E '^ (read|write)_(count|sequential|at_end) '
>  read_count INTEGER reads
>  read_sequential INTEGER reads that begin there or further on
>  read_at_end INTEGER reads that returned nothing
>  write_count INTEGER writes
>  write_sequential INTEGER writes that begin there or further on
>  write_at_end INTEGER 0: only reads have it

# the examples of the help work
$ millrace query --help | grep -o "'select [^']*'" | tr -d "'" | while read -r sql; do millrace query "$SOURCE/tests/golden/trace.mrt" "$sql" > out && echo works; done
> works
> works
> works

# the result is a table; missing values are NULL
$ millrace query "$SOURCE/tests/golden/trace.mrt" 'select name, layer, file, offset, size, result, duration, errno, rank, epoch, step, tags from events'
> name   layer   file            offset  size  result  duration  errno  rank  epoch  step  tags
> read   posix   dataset/a.bin        0  4096    4096       700      0     0      1     7  NULL
> read   posix   dataset/a.bin     4096  4096    4096       800      0     0      1     7  NULL
> read   posix   dataset/a.bin  1048576  4096      -1       900      5     0      1     7  NULL
> fetch  loader  NULL              NULL  NULL    NULL      4000      0     0      1     7  {"fetch": 12}
$ millrace query "$SOURCE/tests/golden/trace.mrt" 'select name, count(*), sum(duration), avg(size) from events group by name order by name'
> name   count(*)  sum(duration)  avg(size)
> fetch         1           4000       NULL
> read          3           2400     4096.0
$ millrace query "$SOURCE/tests/golden/trace.mrt" "select path, kind, reads, errors, bytes_read, read_ns, size_bytes from files"
> path           kind  reads  errors  bytes_read  read_ns  size_bytes
> dataset/a.bin  data      3       1        8192     2400        8192
$ millrace query "$SOURCE/tests/golden/trace.mrt" "select count(*) from events where name = 'write'"
> count(*)
>        0

# for programs
$ millrace query --json "$SOURCE/tests/golden/trace.mrt" "select name, name, file, duration / 1000.0 us from events where name = 'fetch' or errno"
> [
>   {"name": "read", "name_2": "read", "file": "dataset/a.bin", "us": 0.9},
>   {"name": "fetch", "name_2": "fetch", "file": null, "us": 4.0}
> ]
$ millrace query --json "$SOURCE/tests/golden/trace.mrt" "select 1 from events where pid = 0"
> []
$ millrace query --csv "$SOURCE/tests/golden/trace.mrt" "select name, file, 'a,b' || char(255) as odd, '' as empty from events where duration > 800"
> name,file,odd,empty
> read,dataset/a.bin,"a,bÿ",""
> fetch,,"a,bÿ",""

# a query from a file; several traces of one job, including those of other tools
$ echo "select name, count(*) from events -- calls" > q.sql; echo "where layer = 'stdio' group by name order by name;" >> q.sql
$ millrace query -f q.sql "$SOURCE/tests/golden/dftracer_2.pfw" "$SOURCE/tests/golden/dftracer_2_fork.pfw"
> name    count(*)
> fclose         1
> fopen          1
> fwrite         1

# SQL errors: SQLite's message and the position
$ millrace query "$SOURCE/tests/golden/trace.mrt" 'select nam from events'
! millrace: the query: no such column: nam (line 1, column 8, at 'nam from events'); `millrace query --schema` lists tables and columns
? 1
$ millrace query "$SOURCE/tests/golden/trace.mrt" 'select'
! millrace: the query: incomplete input
? 1

# queries cannot write
$ millrace query "$SOURCE/tests/golden/trace.mrt" "attach 'new.db' as n"
! millrace: the query: not authorized; only a single SELECT is allowed
? 1
$ millrace query "$SOURCE/tests/golden/trace.mrt" "create table t(a)"; ls new.db
! millrace: the query: not authorized; only a single SELECT is allowed
! ls: ...
? 2

# wrong usage
$ millrace query "$SOURCE/tests/golden/trace.mrt"
! millrace: TRACE and SQL are missing; for example: millrace query t/ 'select ...'
! Try: millrace query --help
? 2
$ millrace query -f q.sql
! millrace: TRACE is missing: the trace to query
! Try: millrace query --help
? 2
$ millrace query "$SOURCE/tests/golden/trace.mrt" 'select 1' --csv --json
! millrace: --csv and --json are alternatives; give one
! Try: millrace query --help
? 2
$ millrace query --schema "$SOURCE/tests/golden/trace.mrt"
! millrace: --schema takes no trace
! Try: millrace query --help
? 2
$ millrace query nowhere 'select 1'
! millrace: nowhere: ...
? 1
$ millrace query -f nowhere.sql "$SOURCE/tests/golden/trace.mrt"
! millrace: nowhere.sql: ...
? 1
