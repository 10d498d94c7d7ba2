// Override: a change of the workload on the command line, as Hydra writes it.
//
//   train.epochs=1                    sets a key
//   ++workload.train.epochs=1         the same, as for DLIO; +workload... too
//   dataset.record_dims=[64,64]       lists, and maps: {type: normal, mean: 1, stdev: 0.1}
//   ~workload.checkpoint              deletes a key or a section
//   workload=unet3d_h100              takes another workload
//   ++hydra.run.dir=results/today     sets the folder of the results; other keys of hydra: ignored
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/document.h"

namespace millrace::bench {

struct Override {
  enum class Kind {
    kSet,
    kDelete,
    kWorkload,  // `value` is its name
    kIgnored,
  };

  Kind kind = Kind::kSet;
  std::vector<std::string> path;  // without "workload"
  Node value;                     // line 1
};

Result<Override> parse_override(std::string_view text);

// How errors name it: "the override 'train.epoch=1'".
std::string override_name(std::string_view text);

}  // namespace millrace::bench
