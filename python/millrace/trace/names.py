"""Names of regions that reports recognize. Any other name may be used too.

millrace/trace.h has the same names and explains each.
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
DEVICE = "device"
DEVICE_COPY = "device_copy"
