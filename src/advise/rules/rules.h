// Rules: one function per file of the rooms of this folder. advise.cc has the table of them.
//
// Room by room as in docs/guide/advise.md: how data is read, which files, what loading does and in
// what order, and what training does besides.
#pragma once

#include <optional>
#include <vector>

#include "advise/advise.h"
#include "advise/case.h"

namespace millrace::advise {

using Judged = std::optional<Finding>;

Judged judge_checkpoint_shared(const Case& given);
Judged judge_checkpoint_small_writes(const Case& given);
Judged judge_checkpoint_stall(const Case& given);
Judged judge_compressed_samples(const Case& given);
Judged judge_decode_bound(const Case& given);
Judged judge_few_reads_in_flight(const Case& given);
Judged judge_file_shuffle(const Case& given);
Judged judge_fits_local_disk(const Case& given);
Judged judge_fits_memory(const Case& given);
Judged judge_hdf5_chunks(const Case& given);
Judged judge_hot_small_file(const Case& given);
Judged judge_job_failed(const Case& given);
Judged judge_large_shared_file(const Case& given);
Judged judge_line_reads(const Case& given);
Judged judge_little_prefetch(const Case& given);
Judged judge_loop_stall(const Case& given);
Judged judge_many_small_files(const Case& given);
Judged judge_metadata_storm(const Case& given);
Judged judge_no_shuffle(const Case& given);
Judged judge_partial_use(const Case& given);
Judged judge_random_access(const Case& given);
Judged judge_read_amplification(const Case& given);
Judged judge_repeated_opens(const Case& given);
Judged judge_same_bytes(const Case& given);
Judged judge_slow_transform(const Case& given);
Judged judge_small_reads(const Case& given);
Judged judge_stats_file_pieces(const Case& given);
Judged judge_text_parsing(const Case& given);
Judged judge_too_many_workers(const Case& given);
Judged judge_unaligned_direct(const Case& given);
Judged judge_uneven_shards(const Case& given);
Judged judge_worker_restart(const Case& given);

// Whether HDF5 reads twice as many bytes as it returns. read-amplification reports it, so
// hot-small-file leaves out its files.
bool wastes_hdf5_reads(const Case& given);

// decode-bound (`decoding`), or the part of slow-transform that no region marks: the dataset's own
// code, and collating.
Judged judge_code(const Case& given, bool decoding);

// The few small files beside the dataset that are read in small pieces. stats-file-pieces reports
// these, so small-reads leaves them out.
std::vector<const analyze::FileStats*> small_files_in_pieces(const Case& given);

// Whether samples are taken from a few files, one of which is opened for each of them.
// repeated-opens reports it, so compressed-samples leaves it out.
bool opens_archive(const Case& given);

// Whether a small file is opened again for each pass, and read whole. Then the code that parses it
// runs again, too.
bool is_loaded_again(const Case& given, const analyze::FileStats& file);

// A small file beside the samples that is read whole again and again, such as a vocabulary; null if
// there is none. hot-small-file reports it, so rules about the format of the data leave it out.
const analyze::FileStats* reread_file(const Case& given);

// Whether an iterable dataset gives out its first sample before it has read half of a file: no
// shuffle buffer mixes the samples of a file.
bool streams_in_order(const Case& given);

// Whether many threads read, but one at a time. few-reads-in-flight reports it.
bool reads_behind_lock(const Case& given);

// Whether files are listed or examined for each sample. metadata-storm reports these calls, so
// many-small-files leaves them out.
bool examines_files(const Case& given);
// The code around these calls, which is not the dataset's own; 0 if it does not.
uint64_t code_around_storm(const Case& given);

// Set if the dataset is read more than once and the later reads wait for storage. Caching would
// save them.
struct Rereading {
  uint64_t bytes = 0;     // read after the first time
  uint64_t saved_ns = 0;  // wall time, an upper bound
};
std::optional<Rereading> rereading_of(const Case& given);

}  // namespace millrace::advise
