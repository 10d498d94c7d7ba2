// sample_decoder: what a loader does with a sample besides reading it.
//
// Every sample is touched page by page, so that mapped files are really read. Then, as the workload
// says: it is compared with what was generated (reader.verify), decoded (reader.decode), or the
// thread waits for reader.preprocess_time. A row of the batch has the shape and type of
// reader.transformed_record_dims, or record_length_bytes_resize bytes. It is one word if neither is
// set: batches of samples of any length need no padding here.
#pragma once

#include <memory>

#include "base/result.h"
#include "bench/layout.h"
#include "bench/workload.h"
#include "data/decoder.h"
#include "format/format.h"

namespace millrace::bench {

// `format` splits samples into fields; null for images.
Result<std::shared_ptr<const data::Decoder>> make_sample_decoder(
    const Workload& workload, const Layout& layout, Split split,
    std::shared_ptr<const format::Format> format);

}  // namespace millrace::bench
