// Data of TensorBoard's HParams page, byte for byte as protoc encodes the same messages.
#include "observe/tensorboard/hparams.h"

#include <gtest/gtest.h>

#include "base/format.h"

namespace reigen {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

TEST(HParams, AnExperimentNamesSettingsAndMetrics) {
  const Json settings = {{"model.width", 512}, {"model.tied", true}, {"preset", "tiny"}};
  EXPECT_EQ(hex(experiment_bytes(settings, 1'700'000'000.25)),
            "128a011900001040fc54d941220f0a0b6d6f64656c2e77696474682003220e0a0a6d6f64656c2e74696564"
            "2002220a0a0670726573657420012a1a0a0b12096576616c2f6c6f73731a096576616c2f6c6f737328022a"
            "1a0a0b12096576616c2f424c45551a096576616c2f424c455528022a1a0a0b12096576616c2f636872461a"
            "096576616c2f636872462802");
}

TEST(HParams, ASessionHasNumbersFlagsAndText) {
  EXPECT_EQ(hex(session_start_bytes({{"a", 512}}, 1'700'000'000.25)),
            "1a190a0e0a016112091100000000000080402900001040fc54d941");
  EXPECT_EQ(hex(session_start_bytes({{"b", true}}, 2)), "1a120a070a016212022001290000000000000040");
  EXPECT_EQ(hex(session_start_bytes({{"c", "tiny"}}, 2)),
            "1a160a0b0a016312061a0474696e79290000000000000040");
  EXPECT_EQ(hex(session_end_bytes(true, 1'700'000'002.5)), "220b0801110000a040fc54d941");
}

TEST(HParams, SettingsAreTheHyperParameters) {
  const Json config = {{"preset", "tiny"},
                       {"run", "runs/first"},
                       {"model", {{"width", 64}, {"norm", "pre"}}},
                       {"schedule", {{"values", {0.1, 0.2}}, {"nothing", nullptr}}}};
  EXPECT_EQ(session_settings(config), (Json{{"preset", "tiny"},
                                            {"model.width", 64},
                                            {"model.norm", "pre"},
                                            {"schedule.values", "[0.1,0.2]"}}));
}

}  // namespace
}  // namespace reigen
