// The variables of each launcher, and Slurm's node lists.
#include "dist/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace reigen {
namespace {

using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(DetectLaunch, FindsNoLauncherWithoutItsVariables) {
  EXPECT_FALSE(detect_launch(of({})));
  EXPECT_FALSE(detect_launch(of({{"RANK", "0"}})));
  // A Slurm batch script, outside of srun.
  EXPECT_FALSE(detect_launch(of({{"SLURM_PROCID", "0"},
                                 {"SLURM_NTASKS", "4"},
                                 {"SLURM_NODELIST", "vm[1-2]"},
                                 {"SLURM_JOB_ID", "7"}})));
}

TEST(DetectLaunch, OwnVariablesPrecedeThoseOfTorchrun) {
  PlaceOnHost place;
  place.rank = 2;
  place.size = 3;
  place.local_rank = 1;
  place.local_size = 2;
  place.rendezvous = "10.0.0.1:4711,[fd00::1]:4711";
  place.token = "secret";
  place.hosts = "a,b,b";
  place.witness = "17ab";
  Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "9"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "1"}};
  for (const std::string& variable : place_environment(place, 7)) {
    variables[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  }
  const auto p = detect_launch(of(variables));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->launcher, Launcher::kReigen);
  EXPECT_EQ(p->rank, 2);
  EXPECT_EQ(p->size, 3);
  EXPECT_EQ(p->local_rank, 1);
  EXPECT_EQ(p->local_size, 2);
  EXPECT_EQ(p->listen_fd, 7);
  EXPECT_EQ(p->witness, "");  // a witness is asked through a pipe
  variables["REIGEN_AGENT_FD"] = "8";
  EXPECT_EQ(detect_launch(of(variables))->witness, "17ab");
  EXPECT_EQ(p->token, "secret");
  EXPECT_TRUE(p->secret);
  EXPECT_THAT(p->hosts, testing::ElementsAre("a", "b", "b"));
  EXPECT_THAT(p->rendezvous,
              testing::ElementsAre(Endpoint{"10.0.0.1", 4711}, Endpoint{"fd00::1", 4711}));
}

TEST(LaunchDepth, AWorkerOfALauncherNeverLaunches) {
  EXPECT_NO_THROW(check_launch_depth(of({})));
  PlaceOnHost place;
  place.rendezvous = "127.0.0.1:1";
  Variables variables;
  for (const std::string& variable : place_environment(place, -1)) {
    variables[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  }
  EXPECT_EQ(launch_depth(of(variables)), 1);
  EXPECT_THROW(check_launch_depth(of(variables)), ConfigError);
}

TEST(DetectLaunch, AJobIsLocalByItsSizesOrByALoopbackAddress) {
  Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "vm1"}};
  EXPECT_FALSE(all_on_this_machine(*detect_launch(of(variables))));
  variables["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_TRUE(all_on_this_machine(*detect_launch(of(variables))));
  variables["LOCAL_WORLD_SIZE"] = "1";
  variables["MASTER_ADDR"] = "127.0.0.1";
  EXPECT_TRUE(all_on_this_machine(*detect_launch(of(variables))));
}

TEST(DetectLaunch, TheRendezvousDoesNotUseTorchrunsPort) {
  const auto p = detect_launch(of({{"RANK", "1"},
                                   {"WORLD_SIZE", "4"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "vm1"},
                                   {"MASTER_PORT", "29500"},
                                   {"TORCHELASTIC_RUN_ID", "run"}}));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->launcher, Launcher::kTorchrun);
  EXPECT_EQ(p->rank, 1);
  EXPECT_EQ(p->local_size, 2);
  EXPECT_EQ(p->rendezvous.front(), (Endpoint{"vm1", 29501}));
  EXPECT_EQ(p->ports.front(), 29501);
  EXPECT_FALSE(p->token.empty());
  EXPECT_FALSE(p->secret);
}

TEST(DetectLaunch, OpenMpiGetsTheAddressFromPmix) {
  const auto p = detect_launch(of({{"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->launcher, Launcher::kOpenMpi);
  EXPECT_EQ(p->rank, 3);
  EXPECT_TRUE(p->rendezvous.empty());
}

TEST(DetectLaunch, AllRanksOfSrunDeriveTheSameHostPortAndToken) {
  Variables variables = {{"SLURM_PROCID", "0"},  {"SLURM_NTASKS", "4"},
                         {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "1234"},
                         {"SLURM_LOCALID", "0"}, {"SLURM_NODELIST", "vm[07-09],other"}};
  const auto first = detect_launch(of(variables));
  variables["SLURM_PROCID"] = "3";
  const auto last = detect_launch(of(variables));
  ASSERT_TRUE(first && last);
  EXPECT_EQ(first->launcher, Launcher::kSlurm);
  EXPECT_EQ(first->rendezvous.front().host, "vm07");
  EXPECT_EQ(first->rendezvous, last->rendezvous);
  EXPECT_EQ(first->token, last->token);
  variables["SLURM_STEP_TASKS_PER_NODE"] = "1(x2),2";
  for (const auto& [node, tasks] : {std::pair("0", 1), std::pair("1", 1), std::pair("2", 2)}) {
    variables["SLURM_NODEID"] = node;
    EXPECT_EQ(detect_launch(of(variables))->local_size, tasks) << node;
  }
  variables["SLURM_STEP_ID"] = "1";
  EXPECT_NE(detect_launch(of(variables))->token, first->token);
}

TEST(DetectLaunch, ContradictoryVariablesAreNamedInTheError) {
  try {
    detect_launch(
        of({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}));
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("RANK=4 is too large for WORLD_SIZE=4"));
  }
  try {
    detect_launch(
        of({{"RANK", "x"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}));
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("RANK=x"));
  }
}

TEST(Nodelist, GivesItsFirstName) {
  EXPECT_EQ(first_of_nodelist("vm1"), "vm1");
  EXPECT_EQ(first_of_nodelist("vm1,vm2"), "vm1");
  EXPECT_EQ(first_of_nodelist("vm[3-5]"), "vm3");
  EXPECT_EQ(first_of_nodelist("vm[03,07-9],gpu1"), "vm03");
  EXPECT_EQ(first_of_nodelist("vm[2]-ib,gpu1"), "vm2-ib");
  EXPECT_EQ(first_of_nodelist("a,vm[2-3]"), "a");
}

TEST(Endpoints, AreParsedAndFormatted) {
  EXPECT_THAT(parse_endpoints("vm1:1,[::1]:65535"),
              testing::ElementsAre(Endpoint{"vm1", 1}, Endpoint{"::1", 65535}));
  EXPECT_EQ(text_of({"::1", 7}), "[::1]:7");
  for (const char* wrong : {"", "vm1", "vm1:", ":1", "vm1:0", "vm1:65536", "vm1:1x", "a:1,"}) {
    EXPECT_THROW(parse_endpoints(wrong), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace reigen
