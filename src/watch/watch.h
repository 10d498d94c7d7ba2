// watch: shows what a job does right now, from what it records. The job does not notice.
//
// JobWatch reads a trace directory repeatedly. Each look returns a Snapshot, which can be printed
// as text or JSON. Nothing here writes to the job's files, sends a signal or takes a lock.
#pragma once

#include "watch/job_watch.h"
#include "watch/snapshot.h"
