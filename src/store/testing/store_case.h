// StoreCase: what tests of the store begin with: a directory, files in it, packs of them, the
// places of several services, and a question to one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/counter_random.h"
#include "comm/lifeline/message.h"
#include "comm/single.h"
#include "store/client/service_client.h"
#include "store/pack/packer.h"
#include "store/peers/peers.h"

namespace millrace::store {

// How long a test waits for a service. Long, because the machine may be busy.
inline constexpr std::chrono::seconds kTestPatience{60};

// Bytes that do not compress.
inline std::string noise(uint64_t seed, size_t size) {
  CounterRandom random(seed, size);
  std::string bytes(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

// With the directories above it.
inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Its bytes, or why it cannot be read.
inline std::string content_of(const std::filesystem::path& path) {
  auto text = read_file(path);
  return text.ok() ? *std::move(text) : text.error().message();
}

inline void pack_files(const PackOptions& options) {
  const auto packed = pack_directory(options, *comm::single());
  ASSERT_TRUE(packed.ok()) << packed.error().message();
}

// The errno value of the answer, or -1 if there was none.
inline int ask_node(const std::filesystem::path& node, uint64_t entry,
                    wire::StoreRequestKind kind = wire::StoreRequestKind::kMaterialise) {
  const auto client = ServiceClient::connect(node);
  if (!client.ok() || !client->ask(7, entry, kind).ok()) return -1;
  const auto reply = client->next(kTestPatience);
  return reply.ok() && reply->id == 7 ? reply->os_error : -1;
}

class StoreCase : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create("/tmp", "mr-");  // short, for the paths of sockets
    ASSERT_TRUE(made.ok());
    directory_ = std::make_unique<TemporaryDirectory>(*std::move(made));
    top_ = directory_->path();
  }

  // Keeps what a service or its peers say. They call it from any thread.
  std::function<void(const std::string& line)> logger() {
    return [this](const std::string& line) {
      const std::lock_guard lock(lines_mutex_);
      lines_.push_back(line);
    };
  }

  std::unique_ptr<TemporaryDirectory> directory_;
  std::filesystem::path top_;
  std::mutex lines_mutex_;
  std::vector<std::string> lines_;  // that were logged
};

// The services of a job, on this host: node1, node2 ...
struct JobPlaces {
  PeerTable table;
  std::vector<comm::Listener> listeners;

  void make(uint32_t count) {
    auto key = comm::make_key();
    ASSERT_TRUE(key.ok());
    table = {.job = random_job_name(), .key = *key, .places = {}};
    for (uint32_t i = 0; i < count; ++i) {
      auto listener = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
      ASSERT_TRUE(listener.ok());
      table.places.push_back(place_of(*listener));
      table.places.back().host = fmt::format("node{}", i + 1);
      listeners.push_back(*std::move(listener));
    }
  }

  PeersOptions options(uint32_t rank) {
    PeersOptions options;
    options.table = table;
    options.own = static_cast<Rank>(rank);
    options.listener = std::move(listeners[rank]);
    options.deadline = std::chrono::seconds(30);
    return options;
  }
};

}  // namespace millrace::store
