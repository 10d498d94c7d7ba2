// ServiceProcess: the store's service in a process of its own.
//
// It has its own session, so the terminal's signals do not reach it. It ends at SIGTERM, and when
// the process that it watches ends, however that dies.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "store/peers/peer_table.h"
#include "store/service/service.h"

namespace millrace::store {

struct ServiceProcessOptions {
  ServiceOptions service;      // its log is set here
  File watched;                // a pidfd; closed: none
  bool is_background = false;  // lets go of our output, and logs into the folder; otherwise it logs
                               // to standard error
};

struct StartedService {
  pid_t pid = 0;
  std::filesystem::path node;
  std::string table;  // of a group: its services (peer_table.h); empty if it is not known
};

// The exit code of a service that could not save everything that programs created.
inline constexpr int kExitNotSaved = 3;

// On return, the service answers requests. REQUIRES: this process has one thread
Result<StartedService> start_service_process(ServiceProcessOptions options);

// ---- a service that is one of several, on as many nodes ----
//
// The process that starts it, the rank, is only needed to find the others and to pass on what the
// service logs. If it is killed, the service stays as long as programs of its node use it
// (docs/design/store.md, "Who ends whom").

struct RankService {
  pid_t pid = 0;
  std::filesystem::path node;
  File lines;  // what it logs; at its end, it has ended
  PeerTable table;
  Rank own = comm::kFirstRank;
};

// Exchanges the place of this service for the table of all, and this rank.
struct Membership {
  PeerTable table;
  Rank own = comm::kFirstRank;
};
using ExchangePlaces = std::function<Result<Membership>(const std::string& own_place)>;

// The process is forked before `exchange` is called, which may start threads.
Result<RankService> start_rank_service(ServiceProcessOptions options,
                                       const ExchangePlaces& exchange);

// Passes the lines on to standard error until the service ends. When this process must end
// (SIGTERM, SIGINT, SIGHUP), so does the service, unless programs use it. Returns its wait status,
// or 0 if it stays.
int attend_rank_service(const RankService& service);

// What the user should know at the end: the job was slower than it could be, or read something
// else.
std::vector<std::string> loss_lines(const wire::StoreCounters& counters, std::string_view origin);

// ---- for processes that start a service ----

struct ProcessPipe {
  File reading;
  File writing;
};
Result<ProcessPipe> make_pipe();
// Up to its end, or to where `last` is in it.
std::string read_until(const File& pipe, std::string_view last = {});
// One letter, then the text. False if nobody reads it.
bool tell(const File& pipe, char kind, const std::string& text);
// Blocks the signals that end a service; readable when one of them has come.
File ending_signals();

// A descriptor that is readable when the process has ended; closed if it has already.
File watch_process(pid_t pid);

}  // namespace millrace::store
