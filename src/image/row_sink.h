// RowSink: receives the rows of a window of an image, one after the other from the top.
//
// The sink provides the memory, so that a decoder writes each row once, where it is used: directly
// into the batch if the pixels need no processing. Some decoders can only begin at a multiple of
// some number of pixels. Their rows begin before the window, and the sink gets the difference.
#pragma once

#include <cstdint>

#include "image/image.h"

namespace millrace::image {

struct RowRun {
  uint32_t lead_pixels = 0;   // before the window, in each row
  uint32_t total_pixels = 0;  // in each row: the lead, the window, perhaps more
  uint32_t row_count = 0;
};

class RowSink {
 public:
  virtual ~RowSink() = default;

  virtual void begin(const RowRun& run) = 0;
  // Returns memory for the next row, of total_pixels. Valid until row_done().
  virtual uint8_t* room() = 0;
  virtual void row_done() = 0;
};

}  // namespace millrace::image
