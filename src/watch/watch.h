// watch: what a job does right now, read from what it records, without its noticing.
//
// JobWatch looks at a trace directory again and again; a Snapshot is what one look found, as text
// or JSON. Nothing here writes into the job's files, sends a signal or takes a lock.
#pragma once

#include "watch/job_watch.h"
#include "watch/snapshot.h"
