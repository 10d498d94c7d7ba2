#include "cli/jobs/interruption.h"

namespace millrace::cli {
namespace {

std::atomic<int> interrupting_signal = 0;

void note_signal(int signal) {
  interrupting_signal = signal;
  is_interrupted = true;
}

}  // namespace

PoliteInterruption::PoliteInterruption() {
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = note_signal;
    sigaction(kSignals[i], &action, nullptr);
  }
}

PoliteInterruption::~PoliteInterruption() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  if (interrupting_signal != 0) raise(interrupting_signal);
}

}  // namespace millrace::cli
