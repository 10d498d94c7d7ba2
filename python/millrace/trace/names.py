"""Names: the life of a training job. Reports know these; all others are free.

The same names as in millrace/trace.h, where each is explained.
"""

SETUP = "setup"
EPOCH = "epoch"
FETCH = "fetch"
READ = "read"
DECODE = "decode"
TRANSFORM = "transform"
COLLATE = "collate"
BATCH_WAIT = "batch_wait"
COPY = "copy"
COMPUTE = "compute"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
COMMUNICATE = "communicate"
EVALUATE = "evaluate"
CHECKPOINT = "checkpoint"
RESTORE = "restore"
