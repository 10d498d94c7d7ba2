// Checks the contracts of Comm and Messages for the implementations that need no launcher. For MPI,
// see tests/comm/mpi_test.py.
#include "comm/comm.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "comm/single.h"
#include "comm/testing/comm_contract.h"
#include "comm/testing/messages_contract.h"
#include "comm/testing/threads.h"

namespace millrace::comm {
namespace {

struct Job {
  std::string name;
  uint32_t size;
  std::vector<std::unique_ptr<Comm>> (*make)(uint32_t size);
};

std::vector<std::unique_ptr<Comm>> make_single(uint32_t) {
  std::vector<std::unique_ptr<Comm>> ranks;
  ranks.push_back(single());
  return ranks;
}

class CommContract : public testing::TestWithParam<std::tuple<Job, ContractClause>> {};

TEST_P(CommContract, Holds) {
  const auto& [job, clause] = GetParam();
  auto ranks = job.make(job.size);
  std::vector<Status> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back(
        [&outcome = outcomes[rank], comm = std::move(ranks[rank]), check = clause.check]() mutable {
          outcome = check(comm);
          // A rank whose check failed ends, so that the others do not wait for it.
          comm.reset();
        });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].ok()) << "rank " << rank << ": " << outcomes[rank].error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CommContract,
                         testing::Combine(testing::Values(Job{"Single", 1, make_single},
                                                          Job{"Threads1", 1, threads_comm},
                                                          Job{"Threads2", 2, threads_comm},
                                                          Job{"Threads5", 5, threads_comm}),
                                          testing::ValuesIn(contract().begin(), contract().end())),
                         [](const auto& tried) {
                           return std::get<0>(tried.param).name +
                                  std::string(std::get<1>(tried.param).name);
                         });

INSTANTIATE_TEST_SUITE_P(OfMessages, CommContract,
                         testing::Combine(testing::Values(Job{"Single", 1, make_single},
                                                          Job{"Threads1", 1, threads_comm},
                                                          Job{"Threads2", 2, threads_comm},
                                                          Job{"Threads5", 5, threads_comm}),
                                          testing::ValuesIn(messages_contract().begin(),
                                                            messages_contract().end())),
                         [](const auto& tried) {
                           return std::get<0>(tried.param).name +
                                  std::string(std::get<1>(tried.param).name);
                         });

}  // namespace
}  // namespace millrace::comm
