#include "advise/testing/shared_jobs.h"

#include <fmt/core.h>

namespace millrace::advise {

analyze::Profile epoch_in_pieces(uint64_t piece, nanoseconds takes, unsigned readers) {
  constexpr uint64_t kFileSize = 64 * kMiB;
  constexpr uint64_t kFiles = 8;
  JobSketch job;
  const auto each = static_cast<int64_t>(kFiles * (kFileSize / piece) / readers) * takes;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = each * 2 / 5, .readers = readers}, [&](Team& team) {
      for (uint64_t i = 0; i < kFiles; ++i) {
        team.next().read_file(fmt::format("/data/{}.bin", i),
                              {.size = kFileSize, .piece = piece, .takes = takes});
      }
    });
  });
  return job.profile();
}

analyze::Profile two_epochs(nanoseconds takes, uint64_t epochs, uint64_t times) {
  JobSketch job(2, 2);
  for (Rank& rank : job.ranks()) {
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      rank.epoch(static_cast<int64_t>(epoch), [&] {
        rank.batch({.compute = static_cast<int64_t>(times) * 300ms}, [&](Team& team) {
          const auto order = shuffled(400, epoch);
          for (size_t i = rank.index() * 200; i < rank.index() * 200 + 200; ++i) {
            team.next().read_file(
                fmt::format("/data/{:03}.npy", order[i]),
                {.size = times * 2 * kMiB,
                 .takes = static_cast<int64_t>(times) * (epoch == 0 ? 20ms : takes)});
          }
        });
      });
    }
  }
  return job.profile();
}

analyze::Profile ranks_read(const std::vector<Part>& parts, uint64_t epochs, nanoseconds takes) {
  JobSketch job(static_cast<uint32_t>(parts.size()));
  for (Rank& rank : job.ranks()) {
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      rank.epoch(static_cast<int64_t>(epoch), [&] {
        rank.batch({.compute = 10 * takes}, [&](Team& team) {
          const auto order = shuffled(100, epoch);
          const Part part = parts[rank.index()];
          for (uint64_t i = part.first; i < part.first + part.files; ++i) {
            team.next().read_file(fmt::format("/data/{:03}.npy", order[i % 100]),
                                  {.size = 10 * kMiB, .piece = 2 * kMiB, .takes = takes});
          }
        });
      });
    }
  }
  return job.profile();
}

analyze::Profile training_with_checkpoints(const Saving& saving) {
  JobSketch job(saving.ranks);
  const auto pieces = static_cast<int64_t>(saving.bytes / saving.piece);
  for (Rank& rank : job.ranks()) {
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      rank.epoch(epoch, [&] {
        rank.compute(10s);
        if (rank.index() != 0) {
          rank.main.now += saving.takes;
          return;
        }
        rank.within("checkpoint", [&] {
          const std::string path = fmt::format("/shared/run/checkpoint-{}.pt", epoch);
          for (int64_t i = 0; i < pieces; ++i) {
            rank.main.write(path, static_cast<uint64_t>(i) * saving.piece, saving.piece,
                            saving.takes / pieces);
          }
        });
      });
    }
  }
  return job.profile();
}

}  // namespace millrace::advise
