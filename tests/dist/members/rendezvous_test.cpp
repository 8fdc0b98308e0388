// Joining a job, refusals, and the control channel between workers.
#include "dist/members/control_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "dist/members/rendezvous_server.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

// A server on loopback, and options to join it with.
struct TestJob {
  explicit TestJob(int size, milliseconds start_within = milliseconds(5000),
                   milliseconds silence = milliseconds(5000)) {
    server_options.size = size;
    server_options.token = "right";
    server_options.start_within = start_within;
    server_options.silence = silence;
    server_options.hosts = {"vm0", "vm1", "vm2"};
  }

  void start() {
    server = std::make_unique<RendezvousServer>(server_options, listen_on("127.0.0.1", 0));
  }

  JoinOptions member(int rank) const {
    JoinOptions options;
    options.at = {{"127.0.0.1", server->port()}};
    options.token = "right";
    options.worker = {rank, 0x8000000000000000u + static_cast<uint64_t>(rank)};
    options.rank = rank;
    options.size = server_options.size;
    options.host = format("vm{}", rank);
    options.facts = {{"version", "1"}, {"config", "abc"}};
    options.start_within = milliseconds(5000);
    options.silence = server_options.silence;
    return options;
  }

  ServerOptions server_options;
  std::unique_ptr<RendezvousServer> server;
};

// Each rank on its own thread; returns the error of each constructor, or "".
std::vector<std::string> join_all(std::vector<JoinOptions> members,
                                  const std::function<void(ControlChannel&)>& body) {
  std::vector<std::string> errors(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        ControlChannel member(members[i]);
        body(member);
        member.leave();
      } catch (const CommError& e) {
        errors[i] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 5000 && !done(); ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(done());
}

TEST(Rendezvous, GivesAllWorkersTheListOfMembers) {
  TestJob job(3);
  job.start();
  const auto errors =
      join_all({job.member(0), job.member(1), job.member(2)}, [&](ControlChannel& m) {
        ASSERT_EQ(m.size(), 3);
        for (int rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(m.members()[static_cast<size_t>(rank)].host, format("vm{}", rank));
          EXPECT_EQ(m.members()[static_cast<size_t>(rank)].address, "127.0.0.1");
          EXPECT_EQ(m.members()[static_cast<size_t>(rank)].id, job.member(rank).worker);
        }
      });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, ForwardsValuesOfAnyBytes) {
  TestJob job(2);
  job.start();
  const std::string bytes("\0\xFF\n\"", 4);
  const auto errors = join_all({job.member(0), job.member(1)}, [&](ControlChannel& m) {
    if (m.rank() == 0) {
      std::this_thread::sleep_for(milliseconds(20));
      m.set("key", bytes);
    }
    EXPECT_EQ(m.get("key", milliseconds(5000)), bytes);
    EXPECT_EQ(m.get("never", milliseconds(10)), std::nullopt);
    m.set(format("done{}", m.rank()), "");
    for (int r : {0, 1}) m.get(format("done{}", r), milliseconds(5000));
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, NamesTheMissingRank) {
  TestJob job(3, milliseconds(300));
  job.start();
  const auto errors = join_all({job.member(0), job.member(2)}, [](ControlChannel&) { FAIL(); });
  EXPECT_THAT(errors, testing::Each(AllOf(HasSubstr("rank 1 (vm1)"), HasSubstr("0.3 s"))));
}

TEST(Rendezvous, NamesTheRankWithADifferentFact) {
  TestJob job(3);
  job.start();
  JoinOptions other = job.member(2);
  other.facts["config"] = "xyz";
  const auto errors =
      join_all({job.member(0), job.member(1), other}, [](ControlChannel&) { FAIL(); });
  EXPECT_THAT(errors, testing::Each("workers disagree: config: rank 0 (vm0) has abc, "
                                    "rank 2 (vm2) has xyz"));
}

TEST(Rendezvous, RefusesADifferentSizeOrEpochAndADuplicateRank) {
  TestJob job(2, milliseconds(500));
  job.start();
  JoinOptions size = job.member(1);
  size.size = 4;
  EXPECT_THAT(join_all({size}, [](ControlChannel&) { FAIL(); })[0],
              AllOf(HasSubstr("rank 1 (vm1)"), HasSubstr("4 workers"), HasSubstr("has 2")));
  JoinOptions epoch = job.member(1);
  epoch.epoch = 7;
  EXPECT_THAT(join_all({epoch}, [](ControlChannel&) { FAIL(); })[0], HasSubstr("epoch 7"));
  const auto errors = join_all({job.member(0), job.member(0)}, [](ControlChannel&) { FAIL(); });
  EXPECT_THAT(errors, testing::Contains(HasSubstr("rank 0 joined twice")));
}

TEST(Rendezvous, AWrongTokenIsRefusedAndCounted) {
  TestJob job(2);
  job.start();
  JoinOptions stranger = job.member(1);
  stranger.token = "wrong";
  stranger.start_within = milliseconds(300);
  EXPECT_THAT(join_all({stranger}, [](ControlChannel&) { FAIL(); })[0], HasSubstr("token"));
  EXPECT_GE(job.server->rejected(), 1U);
  // The job itself still forms.
  EXPECT_THAT(join_all({job.member(0), job.member(1)}, [](ControlChannel&) {}), testing::Each(""));
}

TEST(Rendezvous, AServerWithoutTheTokenIsRefused) {
  Socket listener = listen_on("127.0.0.1", 0);
  const int port = port_of(listener);
  std::atomic<bool> over = false;
  std::thread impostor([&] {
    std::vector<Socket> sockets;
    while (!over) {
      Socket socket = accept_from(listener);
      std::string out = encode_message({{"kind", "hello"}, {"nonce", "00"}}) +
                        encode_message({{"kind", "proved"}, {"proof", std::string(64, '0')}});
      if (socket.open()) write_available(socket, out);
      if (socket.open()) sockets.push_back(std::move(socket));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  JoinOptions options;
  options.at = {{"127.0.0.1", port}};
  options.token = "right";
  options.start_within = milliseconds(500);
  EXPECT_THAT(join_all({options}, [](ControlChannel&) { FAIL(); })[0], HasSubstr("token"));
  over = true;
  impostor.join();
}

TEST(Rendezvous, MalformedMessagesDoNotDisturbTheJob) {
  TestJob job(2);
  job.start();
  const std::string junk[] = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(100'000, '\xFF'),
      std::string(4, '\0'),
      std::string("\0\0\0\2{}", 6),
      std::string("\0\0\0\4\xFF\xFE{}", 8),
      encode_message({{"kind", "join"}, {"rank", 0}}),
      encode_message({{"kind", "prove"}, {"nonce", 1}, {"proof", Json::array()}}),
      encode_message({{"kind", "prove"}, {"nonce", ""}, {"proof", ""}}),
      "",
  };
  std::vector<Socket> open;
  std::string why;
  const auto throw_junk = [&] {
    for (const std::string& bytes : junk) {
      open.push_back(connect_to({"127.0.0.1", job.server->port()}, milliseconds(1000), why));
      ASSERT_TRUE(open.back().open()) << why;
      std::string out = bytes;
      write_available(open.back(), out);
    }
  };
  throw_junk();
  const auto errors = join_all({job.member(0), job.member(1)}, [&](ControlChannel& m) {
    if (m.rank() == 0) throw_junk();
    m.set(format("here{}", m.rank()), "");
    EXPECT_TRUE(m.get(format("here{}", 1 - m.rank()), milliseconds(5000)));
    EXPECT_FALSE(m.loss());
  });
  EXPECT_THAT(errors, testing::Each(""));
  // All but those that sent no complete message: their time limit is not over yet.
  wait_until([&] { return job.server->rejected() >= 2 * (std::size(junk) - 2); });
}

TEST(Rendezvous, IdleConnectionsBeforeTheStartKeepNoWorkerOut) {
  TestJob job(2);
  job.start();
  std::vector<Socket> idle;
  std::string why;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(connect_to({"127.0.0.1", job.server->port()}, milliseconds(1000), why));
  }
  EXPECT_THAT(join_all({job.member(0), job.member(1)}, [](ControlChannel&) {}), testing::Each(""));
  EXPECT_GE(job.server->rejected(), 200U);
}

// Another user of the machine may hold the port that a worker tries first.
TEST(Rendezvous, AProofThatIsPassedOnByAnotherProcessIsRefused) {
  TestJob job(1);
  job.start();
  const Socket listener = listen_on("127.0.0.1", 0);
  std::atomic<bool> over = false;
  std::thread relay([&] {
    struct Passed {
      Socket in;
      Socket out;
    };
    std::vector<Passed> passed;
    while (!over) {
      std::string why;
      Socket in = accept_from(listener);
      if (in.open()) {
        passed.push_back({std::move(in),
                          connect_to({"127.0.0.1", job.server->port()}, milliseconds(1000), why)});
      }
      for (Passed& p : passed) {
        std::string bytes;
        read_available(p.in, bytes, 1 << 16);
        write_available(p.out, bytes);
        bytes.clear();
        read_available(p.out, bytes, 1 << 16);
        write_available(p.in, bytes);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  JoinOptions options = job.member(0);
  options.at = {{"127.0.0.1", port_of(listener)}};
  options.start_within = milliseconds(400);
  EXPECT_THAT(join_all({options}, [](ControlChannel&) { FAIL(); })[0], HasSubstr("token"));
  over = true;
  relay.join();
}

TEST(Rendezvous, AnEncryptedJobTakesNoWorkerInClear) {
  TestJob job(2);
  job.server_options.token = "right";
  job.server_options.encryption = Encryption(Encrypt::kOn, "right");
  job.start();
  JoinOptions clear = job.member(1);
  clear.start_within = milliseconds(300);
  EXPECT_THAT(join_all({clear}, [](ControlChannel&) { FAIL(); })[0], testing::Not(""));
  std::vector<JoinOptions> members = {job.member(0), job.member(1)};
  for (JoinOptions& member : members) member.encryption = Encryption(Encrypt::kOn, "right");
  const auto errors = join_all(members, [&](ControlChannel& m) {
    m.set(format("here{}", m.rank()), "1");
    EXPECT_TRUE(m.get(format("here{}", 1 - m.rank()), milliseconds(5000)));
    m.leave();
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, FindsTheRightServerAmongSeveralAddresses) {
  TestJob other(1);
  other.server_options.token = "another";
  other.start();
  TestJob job(1);
  job.start();
  JoinOptions options = job.member(0);
  const int closed = [] { return port_of(listen_on("127.0.0.1", 0)); }();
  options.at = {{"127.0.0.1", closed},
                {"127.0.0.1", other.server->port()},
                {"127.0.0.1", job.server->port()}};
  EXPECT_EQ(ControlChannel(options).size(), 1);
}

// Answers every connection at a port with the same bytes, and keeps it open.
class Impostor {
 public:
  explicit Impostor(std::string bytes)
      : listener_(listen_on("127.0.0.1", 0)), thread_([this, bytes] { run(bytes); }) {}
  ~Impostor() {
    over_ = true;
    thread_.join();
  }
  Endpoint at() const { return {"127.0.0.1", port_of(listener_)}; }

 private:
  void run(const std::string& bytes) {
    std::vector<Socket> sockets;
    while (!over_) {
      Socket socket = accept_from(listener_);
      std::string out = bytes;
      if (socket.open()) write_available(socket, out);
      if (socket.open()) sockets.push_back(std::move(socket));
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  Socket listener_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// Each of them would take 5 s, and all of them more than --start-within.
TEST(Rendezvous, IsFoundBehindListenersThatDoNotAnswer) {
  TestJob job(1);
  job.start();
  JoinOptions options = job.member(0);
  options.at.clear();
  std::vector<Socket> silent;
  for (int i = 0; i < 6; ++i) {
    silent.push_back(listen_on("127.0.0.1", 0));
    options.at.push_back({"127.0.0.1", port_of(silent.back())});
  }
  const Impostor greets(encode_message({{"kind", "hello"}, {"nonce", "00"}}));
  options.at.push_back(greets.at());
  options.at.push_back({"127.0.0.1", job.server->port()});
  EXPECT_EQ(join_all({options}, [](ControlChannel& m) { EXPECT_EQ(m.size(), 1); })[0], "");
}

TEST(Rendezvous, TheTextOfAServerThatProvesNothingIsShortAndMarked) {
  const std::string hello = encode_message({{"kind", "hello"}, {"nonce", "00"}});
  const auto refused = [&](const std::string& text) {
    const Impostor impostor(hello + encode_message({{"kind", "refused"}, {"text", text}}));
    JoinOptions options;
    options.at = {impostor.at()};
    options.token = "right";
    options.start_within = milliseconds(300);
    return join_all({options}, [](ControlChannel&) { FAIL(); })[0];
  };
  EXPECT_THAT(refused("wrong version\nrun this"),
              AllOf(HasSubstr("did not prove"), HasSubstr("'wrong version...'"),
                    testing::Not(HasSubstr("run this"))));
  EXPECT_THAT(refused("\x1b[2J" + std::string(500, 'x')),
              AllOf(HasSubstr("\\x1b"), HasSubstr(std::string(100, 'x')),
                    testing::Not(HasSubstr(std::string(130, 'x')))));
  // A message of more than a stranger may send is not read.
  EXPECT_THAT(refused(std::string(kMostFromStranger, 'x')), testing::Not(HasSubstr("xxx")));
}

TEST(Rendezvous, TheErrorNamesTheAddressThatDidNotAnswer) {
  JoinOptions options;
  options.at = {{"127.0.0.1", [] { return port_of(listen_on("127.0.0.1", 0)); }()}};
  options.host = "vm3";
  options.rank = 3;
  options.start_within = milliseconds(200);
  EXPECT_THAT(
      join_all({options}, [](ControlChannel&) { FAIL(); })[0],
      AllOf(HasSubstr("rank 3 on vm3"), HasSubstr("0.2 s"), HasSubstr("Connection refused")));
}

TEST(Rendezvous, TheFirstErrorReachesAllWorkers) {
  TestJob job(3);
  job.start();
  const auto errors =
      join_all({job.member(0), job.member(1), job.member(2)}, [](ControlChannel& m) {
        if (m.rank() == 2) {
          m.report_error("no space left");
          m.report_error("and then some");
        }
        wait_until([&] { return m.first_error().has_value(); });
        EXPECT_EQ(m.first_error()->rank, 2);
        EXPECT_EQ(m.first_error()->host, "vm2");
        EXPECT_EQ(m.first_error()->text, "no space left");
        m.set(format("done{}", m.rank()), "");
        for (int r : {0, 1, 2}) m.get(format("done{}", r), milliseconds(5000));
      });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, AClosedConnectionWithoutLeaveIsALoss) {
  TestJob job(2);
  job.start();
  auto one = job.member(1);
  std::thread other([&] { ControlChannel member(one); });
  const auto errors = join_all({job.member(0)}, [](ControlChannel& m) {
    const auto loss = m.wait_for_loss(milliseconds(5000));
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 1);
  });
  other.join();
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, TheEndOfTheServerIsTheLossOfItsHost) {
  TestJob job(1);
  job.start();
  ControlChannel member(job.member(0));
  job.server.reset();
  const auto loss = member.wait_for_loss(milliseconds(5000));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_EQ(loss->host, "vm0");
}

TEST(Rendezvous, LeavingIsNoLoss) {
  TestJob job(2);
  job.start();
  const auto errors = join_all({job.member(0), job.member(1)}, [](ControlChannel& m) {
    if (m.rank() == 1) return m.leave();
    EXPECT_FALSE(m.wait_for_loss(milliseconds(200)));
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Rendezvous, AWorkerWithoutHeartbeatsIsLostAndNamedToAll) {
  TestJob job(3, milliseconds(5000), milliseconds(300));
  job.start();
  // Rank 2 sends no heartbeats within the limit of the others.
  std::thread silent([&] {
    JoinOptions options = job.member(2);
    options.silence = milliseconds(100'000);  // a heartbeat every ten seconds
    ControlChannel member(options);
    const auto loss = member.wait_for_loss(milliseconds(5000));
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 2);  // it is notified of its own loss
  });
  const auto errors = join_all({job.member(0), job.member(1)}, [](ControlChannel& m) {
    std::atomic<bool> called = false;
    m.on_departure([&](const Departure&) { called = true; });
    const auto loss = m.wait_for_loss(milliseconds(5000));
    ASSERT_TRUE(loss);
    EXPECT_EQ(describe(*loss), "lost rank 2 (vm2): no heartbeat for 0.3 s");
    wait_until([&] { return called.load(); });
  });
  silent.join();
  EXPECT_THAT(errors, testing::Each(""));
}

}  // namespace
}  // namespace reigen
