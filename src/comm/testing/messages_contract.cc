#include "comm/testing/messages_contract.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "comm/messages.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using Ours = std::unique_ptr<Comm>;

constexpr MessageTag kTag{7};
constexpr MessageTag kOtherTag{32767};  // the highest one

Status expect(bool holds, std::string_view what) {
  if (holds) return {};
  return fail(Errc::kCorrupt, "violated: {}", what);
}

Rank last_rank(const Comm& comm) { return static_cast<Rank>(comm.size() - 1); }
bool is_last(const Comm& comm) { return comm.rank() == last_rank(comm); }
Rank next_rank(const Comm& comm) {
  return static_cast<Rank>((index_of(comm.rank()) + 1) % comm.size());
}
Rank rank_before(const Comm& comm) {
  return static_cast<Rank>((index_of(comm.rank()) + comm.size() - 1) % comm.size());
}

// Different bytes for each rank and length.
std::string bytes_of_rank(Rank rank, size_t length) {
  std::string bytes(length, '\0');
  Random random(index_of(rank) * 1'000'003 + length);
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

template <typename Try>
Status for_each_rank(const Comm& comm, Try try_rank) {
  for (uint32_t rank = 0; rank < comm.size(); ++rank) {
    RETURN_IF_ERROR(try_rank(static_cast<Rank>(rank)).within(fmt::format("with rank {}", rank)));
  }
  return {};
}

Status expect_taken(Messages& messages, Ticket ticket, const std::string& expected) {
  ASSIGN_OR_RETURN(const std::string bytes, messages.take(ticket));
  if (bytes == expected) return {};
  return fail(Errc::kCorrupt, "instead of a message of {} bytes, another one of {} arrived",
              expected.size(), bytes.size());
}

// Expects a failure whose message starts with `beginning`.
Status expect_failure(const Status& status, std::string_view beginning) {
  if (status.ok())
    return fail(Errc::kCorrupt, "it succeeded, but should have failed: {}", beginning);
  if (status.error().message().starts_with(beginning)) return {};
  return fail(Errc::kCorrupt, "it failed with '{}', not with '{}'", status.error().message(),
              beginning);
}

// ---- successes ----

// All send before any receives: that works only if a send does not wait for its receive.
Status messages_of_any_length_arrive(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  RETURN_IF_ERROR(expect(messages->rank() == comm->rank() && messages->size() == comm->size(),
                         "Messages has the rank and size of its Comm"));
  constexpr size_t kLengths[] = {0, 1, 4000, 100'001, 3'000'007};
  std::deque<std::string> sent;
  std::vector<Ticket> tickets;
  RETURN_IF_ERROR(for_each_rank(*comm, [&](Rank to) -> Status {
    for (const size_t length : kLengths) {
      sent.push_back(bytes_of_rank(comm->rank(), length + index_of(to)));
      tickets.push_back(messages->send(to, kTag, bytes_of(sent.back())));
    }
    return {};
  }));
  RETURN_IF_ERROR(for_each_rank(*comm, [&](Rank from) -> Status {
    for (const size_t length : kLengths) {
      RETURN_IF_ERROR(expect_taken(*messages, messages->receive(from, kTag),
                                   bytes_of_rank(from, length + index_of(comm->rank()))));
    }
    return {};
  }));
  for (const Ticket ticket : tickets) RETURN_IF_ERROR(messages->wait(ticket));
  return {};
}

Status messages_of_one_pair_and_tag_keep_their_order(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const auto length_of = [](size_t i) { return i % 3 == 0 ? 50'000 + i : i; };
  std::vector<Ticket> due;
  std::vector<Ticket> sends;
  std::deque<std::string> sent;
  for (size_t i = 0; i < 200; ++i) {
    if (i < 100) due.push_back(messages->receive(rank_before(*comm), kTag));
    sent.push_back(bytes_of_rank(comm->rank(), length_of(i)));
    sends.push_back(messages->send(next_rank(*comm), kTag, bytes_of(sent.back())));
  }
  for (size_t i = 100; i < 200; ++i) due.push_back(messages->receive(rank_before(*comm), kTag));
  for (size_t i = 0; i < 200; ++i) {
    RETURN_IF_ERROR(expect_taken(*messages, due[i], bytes_of_rank(rank_before(*comm), length_of(i)))
                        .within(fmt::format("message {}", i)));
  }
  for (const Ticket ticket : sends) RETURN_IF_ERROR(messages->wait(ticket));
  return {};
}

Status tags_are_independent(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const Ticket first = messages->send(next_rank(*comm), kTag, bytes_of("first"));
  const Ticket second = messages->send(next_rank(*comm), kOtherTag, bytes_of("second"));
  RETURN_IF_ERROR(
      expect_taken(*messages, messages->receive(rank_before(*comm), kOtherTag), "second"));
  RETURN_IF_ERROR(expect_taken(*messages, messages->receive(rank_before(*comm), kTag), "first"));
  RETURN_IF_ERROR(messages->wait(first));
  return messages->wait(second);
}

Status early_messages_wait_for_their_receive(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const std::string mine = bytes_of_rank(comm->rank(), 200'000);
  // The send completes although nobody receives: a rank that computes does not block senders.
  RETURN_IF_ERROR(messages->wait(messages->send(next_rank(*comm), kTag, bytes_of(mine))));
  RETURN_IF_ERROR(comm->barrier());
  return expect_taken(*messages, messages->receive(rank_before(*comm), kTag),
                      bytes_of_rank(rank_before(*comm), 200'000));
}

Status a_ticket_tells_when_it_is_done(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const Ticket due = messages->receive(rank_before(*comm), kTag);
  RETURN_IF_ERROR(expect(!messages->is_done(due), "nothing arrives that nobody sent"));
  const Status waited = messages->wait(due, 1ms);
  RETURN_IF_ERROR(expect_failure(
      waited, fmt::format("rank {} has not sent a message", index_of(rank_before(*comm)))));
  RETURN_IF_ERROR(expect(waited.error().code() == Errc::kTimeout, "a timeout fails with kTimeout"));
  RETURN_IF_ERROR(comm->barrier());
  const Ticket sent = messages->send(next_rank(*comm), kTag, bytes_of("here"));
  RETURN_IF_ERROR(messages->wait(due));
  RETURN_IF_ERROR(expect(messages->is_done(due), "a ticket is done after wait()"));
  RETURN_IF_ERROR(expect_taken(*messages, due, "here"));
  RETURN_IF_ERROR(messages->wait(sent));
  for (const Ticket used_up : {due, sent}) {
    const Status again = messages->wait(used_up);
    RETURN_IF_ERROR(expect(!again.ok() && again.error().code() == Errc::kInvalidArgument,
                           "a ticket can be used only once"));
  }
  return {};
}

Messages::Answer echo_as(Rank rank) {
  return [rank](Rank from, std::string question) {
    return fmt::format("{} to {}: {}", index_of(rank), index_of(from), question);
  };
}

Status questions_are_answered(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  messages->serve(kTag, echo_as(comm->rank()));
  const uint32_t own = index_of(comm->rank());
  RETURN_IF_ERROR(for_each_rank(*comm, [&](Rank whom) {
    return expect_taken(*messages, messages->ask(whom, kTag, "who?"),
                        fmt::format("{} to {}: who?", index_of(whom), own));
  }));
  return comm->barrier();  // a rank that has ended does not answer
}

Status answers_come_in_the_order_of_the_questions(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  messages->serve(kTag, [](Rank, std::string question) { return question; });
  std::vector<Ticket> due;
  const auto length_of = [](size_t i) { return i % 2 == 0 ? 20'000 + i : i; };
  for (size_t i = 0; i < 50; ++i) {
    due.push_back(messages->ask(next_rank(*comm), kTag, bytes_of_rank(comm->rank(), length_of(i))));
  }
  for (size_t i = 0; i < 50; ++i) {
    RETURN_IF_ERROR(expect_taken(*messages, due[i], bytes_of_rank(comm->rank(), length_of(i))));
  }
  return comm->barrier();
}

Status questions_wait_for_a_server(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const Ticket due = messages->ask(next_rank(*comm), kTag, "early");
  // The same tag, but not a question.
  const Ticket sent = messages->send(next_rank(*comm), kTag, bytes_of("apart"));
  RETURN_IF_ERROR(comm->barrier());
  messages->serve(kTag, echo_as(comm->rank()));
  RETURN_IF_ERROR(expect_taken(
      *messages, due,
      fmt::format("{} to {}: early", index_of(next_rank(*comm)), index_of(comm->rank()))));
  RETURN_IF_ERROR(expect_taken(*messages, messages->receive(rank_before(*comm), kTag), "apart"));
  RETURN_IF_ERROR(messages->wait(sent));
  return comm->barrier();
}

// Rank 0 makes no call until all others have their answers.
Status a_rank_answers_while_it_works(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  std::atomic<uint32_t> answered = 0;
  messages->serve(kTag, [&answered](Rank, std::string) {
    ++answered;
    return std::string(300'000, 'x');
  });
  RETURN_IF_ERROR(comm->barrier());
  constexpr uint32_t kQuestions = 5;
  if (comm->rank() == kFirstRank) {
    const auto until = monotonic_now() + 60s;
    while (answered < kQuestions * (comm->size() - 1) && monotonic_now() < until) {
    }
    RETURN_IF_ERROR(expect(answered == kQuestions * (comm->size() - 1), "all were answered"));
  } else {
    for (uint32_t i = 0; i < kQuestions; ++i) {
      RETURN_IF_ERROR(expect_taken(*messages, messages->ask(kFirstRank, kTag, "more"),
                                   std::string(300'000, 'x')));
    }
  }
  return comm->barrier();
}

Status collective_calls_work_meanwhile(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  for (size_t round = 0; round < 30; ++round) {
    const std::string mine = bytes_of_rank(comm->rank(), 10'000 * (round % 5) + round);
    const Ticket sent = messages->send(next_rank(*comm), kTag, bytes_of(mine));
    const Ticket due = messages->receive(rank_before(*comm), kTag);
    uint64_t number = index_of(comm->rank());
    RETURN_IF_ERROR(comm->reduce_to_all(std::span(&number, 1), Fold::kMax));
    RETURN_IF_ERROR(
        expect(number == comm->size() - 1, "a reduction is correct while messages move"));
    RETURN_IF_ERROR(expect_taken(*messages, due, bytes_of_rank(rank_before(*comm), mine.size())));
    RETURN_IF_ERROR(messages->wait(sent));
  }
  return {};
}

Status any_thread_may_call(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  messages->serve(kTag, [](Rank, std::string question) { return question; });
  constexpr uint32_t kThreads = 4;
  std::vector<Status> outcomes(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      outcomes[i] = [&]() -> Status {
        const MessageTag tag{100 + i};
        for (size_t round = 0; round < 30; ++round) {
          const std::string mine = bytes_of_rank(comm->rank(), 3000 * i + round);
          const Ticket sent = messages->send(next_rank(*comm), tag, bytes_of(mine));
          RETURN_IF_ERROR(expect_taken(*messages, messages->receive(rank_before(*comm), tag),
                                       bytes_of_rank(rank_before(*comm), mine.size())));
          RETURN_IF_ERROR(messages->wait(sent));
          RETURN_IF_ERROR(
              expect_taken(*messages, messages->ask(next_rank(*comm), kTag, mine), mine));
        }
        return {};
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) RETURN_IF_ERROR(Status(outcome));
  return comm->barrier();
}

Status invalid_arguments_are_refused(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const auto nobody = static_cast<Rank>(comm->size());
  const std::string expected =
      fmt::format("there is no rank {}; the world size is {}", comm->size(), comm->size());
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->send(nobody, kTag, {})), expected));
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->receive(nobody, kTag)), expected));
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->ask(nobody, kTag, "")), expected));
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->send(kFirstRank, MessageTag{32768}, {})),
                                 "tag 32768 is too large; tags are below 32768"));
  const Ticket sent = messages->send(comm->rank(), kTag, bytes_of("still good"));
  RETURN_IF_ERROR(expect_taken(*messages, messages->receive(comm->rank(), kTag), "still good"));
  return messages->wait(sent);
}

Status messages_opened_twice_are_independent(Ours& comm) {
  ASSIGN_OR_RETURN(auto one, comm->open_messages());
  ASSIGN_OR_RETURN(const auto other, comm->open_messages());
  const Ticket by_one = one->send(next_rank(*comm), kTag, bytes_of("one"));
  const Ticket by_other = other->send(next_rank(*comm), kTag, bytes_of("other"));
  RETURN_IF_ERROR(expect_taken(*other, other->receive(rank_before(*comm), kTag), "other"));
  RETURN_IF_ERROR(expect_taken(*one, one->receive(rank_before(*comm), kTag), "one"));
  RETURN_IF_ERROR(one->wait(by_one));
  one.reset();
  return other->wait(by_other);
}

Status memory_given_back_is_reused(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  for (const size_t length : {200'000, 150'000, 90'000, 200'000, 70'000, 10}) {
    const std::string mine = bytes_of_rank(comm->rank(), length);
    const Ticket sent = messages->send(next_rank(*comm), kTag, bytes_of(mine));
    ASSIGN_OR_RETURN(std::string bytes,
                     messages->take(messages->receive(rank_before(*comm), kTag)));
    RETURN_IF_ERROR(expect(bytes == bytes_of_rank(rank_before(*comm), length),
                           "a message in reused memory is correct"));
    messages->give_back(std::move(bytes));
    RETURN_IF_ERROR(messages->wait(sent));
  }
  return {};
}

Status unused_tickets_do_not_block_the_end(Ours& comm) {
  ASSIGN_OR_RETURN(auto messages, comm->open_messages());
  messages->receive(next_rank(*comm), kOtherTag);
  messages->ask(next_rank(*comm), kOtherTag, "nobody serves this");
  std::string mine = bytes_of_rank(comm->rank(), 1'000'000);
  messages->send(next_rank(*comm), kTag, bytes_of(mine));
  messages.reset();
  mine.clear();
  mine.shrink_to_fit();
  return comm->barrier();
}

// ---- a rank that ends its messages ----

Status what_was_sent_before_the_end_arrives(Ours& comm) {
  ASSIGN_OR_RETURN(auto messages, comm->open_messages());
  if (comm->size() == 1) return {};
  if (is_last(*comm)) {
    const std::string mine = bytes_of_rank(comm->rank(), 70'000);
    std::vector<Ticket> sent;
    for (uint32_t to = 0; to + 1 < comm->size(); ++to) {
      sent.push_back(messages->send(static_cast<Rank>(to), kTag, bytes_of(mine)));
    }
    for (const Ticket ticket : sent) RETURN_IF_ERROR(messages->wait(ticket));
    messages.reset();
    return comm->barrier();
  }
  RETURN_IF_ERROR(comm->barrier());
  const Rank gone = last_rank(*comm);
  RETURN_IF_ERROR(
      expect_taken(*messages, messages->receive(gone, kTag), bytes_of_rank(gone, 70'000)));
  const std::string expected =
      fmt::format("rank {} ended while rank {} ", index_of(gone), index_of(comm->rank()));
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->receive(gone, kTag)), expected));
  // From now on this rank knows that `gone` has ended.
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->send(gone, kTag, {})), expected));
  RETURN_IF_ERROR(expect_failure(messages->wait(messages->ask(gone, kTag, "")), expected));
  RETURN_IF_ERROR(
      expect(messages->has_ended(gone), "has_ended() is true for a rank that has ended"));
  RETURN_IF_ERROR(expect(!messages->has_ended(comm->rank()),
                         "has_ended() is false for a rank that has not ended"));
  const Ticket sent = messages->send(comm->rank(), kTag, bytes_of("others live"));
  RETURN_IF_ERROR(expect_taken(*messages, messages->receive(comm->rank(), kTag), "others live"));
  return messages->wait(sent);
}

Status waiting_ranks_learn_which_rank_ended(Ours& comm) {
  ASSIGN_OR_RETURN(auto messages, comm->open_messages());
  if (comm->size() == 1) return {};
  if (is_last(*comm)) {
    std::this_thread::sleep_for(20ms);
    messages.reset();
    return comm->barrier();
  }
  const Rank gone = last_rank(*comm);
  const Ticket message = messages->receive(gone, kTag);
  const Ticket answer = messages->ask(gone, kTag, "anybody?");
  const std::string expected = fmt::format("rank {} ended while rank {} waited for its message",
                                           index_of(gone), index_of(comm->rank()));
  RETURN_IF_ERROR(expect_failure(messages->wait(message), expected));
  const auto answered = messages->take(answer);
  RETURN_IF_ERROR(expect_failure(answered.ok() ? Status() : answered.error(), expected));
  return comm->barrier();
}

// ---- a rank that fails ----

// `waiting` gives the ticket of a message that will not come.
template <typename Waiting>
Status fail_while_others_wait(Ours& comm, Waiting waiting) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const Rank failing = last_rank(*comm);
  const std::string expected =
      comm->size() == 1 ? std::string("the file ends at byte 7")
                        : fmt::format("rank {}: the file ends at byte 7", index_of(failing));
  Status status = fail(Errc::kCorrupt, "the file ends at byte 7");
  if (is_last(*comm)) {
    std::this_thread::sleep_for(20ms);
  } else {
    status = messages->wait(waiting(*messages, failing));
    RETURN_IF_ERROR(expect_failure(status, expected));
    RETURN_IF_ERROR(expect(status.error().code() == Errc::kCorrupt, "the error code is kept"));
    RETURN_IF_ERROR(
        expect_failure(messages->wait(messages->send(comm->rank(), kTag, {})), expected));
    RETURN_IF_ERROR(expect_failure(messages->wait(messages->ask(failing, kTag, "")), expected));
  }
  // As a command does: passes the error of its work to agree(), whatever it is.
  RETURN_IF_ERROR(expect_failure(comm->agree(status), expected));
  return expect_failure(messages->wait(messages->receive(comm->rank(), kTag)), expected);
}

Status a_failure_reaches_ranks_waiting_for_a_message(Ours& comm) {
  return fail_while_others_wait(
      comm, [](Messages& messages, Rank failing) { return messages.receive(failing, kTag); });
}

Status a_failure_reaches_ranks_waiting_for_an_answer(Ours& comm) {
  return fail_while_others_wait(
      comm, [](Messages& messages, Rank failing) { return messages.ask(failing, kTag, "?"); });
}

// ---- a Comm that ends before its messages ----

Status messages_fail_after_their_comm_ends(Ours& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm->open_messages());
  const Rank next = next_rank(*comm);
  const Ticket due = messages->receive(next, kTag);
  messages->serve(kTag, echo_as(comm->rank()));
  comm.reset();
  RETURN_IF_ERROR(expect(!messages->wait(due).ok(), "messages in flight fail"));
  RETURN_IF_ERROR(expect(!messages->wait(messages->send(next, kTag, {})).ok(), "a send fails"));
  messages->serve(kOtherTag, echo_as(next));
  return expect(!messages->wait(messages->ask(next, kTag, "")).ok(), "a question fails");
}

constexpr ContractClause kContract[] = {
    {"MessagesOfAnyLengthArrive", false, messages_of_any_length_arrive},
    {"MessagesOfOnePairAndTagKeepTheirOrder", false, messages_of_one_pair_and_tag_keep_their_order},
    {"TagsAreIndependent", false, tags_are_independent},
    {"EarlyMessagesWaitForTheirReceive", false, early_messages_wait_for_their_receive},
    {"ATicketTellsWhenItIsDone", false, a_ticket_tells_when_it_is_done},
    {"QuestionsAreAnswered", false, questions_are_answered},
    {"AnswersComeInTheOrderOfTheQuestions", false, answers_come_in_the_order_of_the_questions},
    {"QuestionsWaitForAServer", false, questions_wait_for_a_server},
    {"ARankAnswersWhileItWorks", false, a_rank_answers_while_it_works},
    {"CollectiveCallsWorkMeanwhile", false, collective_calls_work_meanwhile},
    {"AnyThreadMayCall", false, any_thread_may_call},
    {"InvalidArgumentsAreRefused", false, invalid_arguments_are_refused},
    {"MessagesOpenedTwiceAreIndependent", false, messages_opened_twice_are_independent},
    {"MemoryGivenBackIsReused", false, memory_given_back_is_reused},
    {"UnusedTicketsDoNotBlockTheEnd", false, unused_tickets_do_not_block_the_end},
    {"WhatWasSentBeforeTheEndArrives", false, what_was_sent_before_the_end_arrives},
    {"ARankThatEndsItsMessagesIsNamed", false, waiting_ranks_learn_which_rank_ended},
    {"AFailureReachesRanksWaitingForAMessage", true, a_failure_reaches_ranks_waiting_for_a_message},
    {"AFailureReachesRanksWaitingForAnAnswer", true, a_failure_reaches_ranks_waiting_for_an_answer},
    {"MessagesFailAfterTheirCommEnds", true, messages_fail_after_their_comm_ends},
};

}  // namespace

std::span<const ContractClause> messages_contract() { return kContract; }

}  // namespace millrace::comm
