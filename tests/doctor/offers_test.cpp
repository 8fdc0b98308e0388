#include "doctor/offers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file/files.h"
#include "model/flops.h"
#include "model/transformer.h"

namespace reigen {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The step of bench/results/gpu-step.json: base, 32,768 pieces, 20,730 and 21,389 tokens, 19.2 ms.
class BaseJob : public ::testing::Test {
 protected:
  BaseJob() : model_(model_preset("base"), {}, {32'768}) {
    const TokenFlops flops = token_flops(model_preset("base"), 32'768);
    job_.layout = &model_.layout();
    job_.width = 512;
    job_.flops = 20'730 * flops.source + 21'389 * flops.target;
    job_.steps = 187'500;  // an hour of these steps
  }

  Transformer model_;
  OfferedJob job_;
};

TEST(Offers, AreReadFromAMapByName) {
  const std::vector<Offer> offers = parse_offers(
      "a:\n  price: 2.5\n  gpu: H100 PCIe\nb:\n  price: 1\n  cores: 8\n  machines: 3\n"
      "  link: 100mbit\n",
      "offers.yaml");
  ASSERT_EQ(offers.size(), 2);
  EXPECT_EQ(offers[0].gpu, "H100 PCIe");
  EXPECT_EQ(offers[0].gpus, 1);
  EXPECT_EQ(offers[1].machines, 3);
  EXPECT_DOUBLE_EQ(offers[1].link, 12.5e6);
}

TEST(Offers, AWrongFieldIsNamedWithItsOffer) {
  const auto error_of = [](const std::string& yaml) -> std::string {
    try {
      parse_offers(yaml, "offers.yaml");
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("a:\n  price: 1\n  gpu: H300\n"), HasSubstr("offer 'a': gpu 'H300'"));
  EXPECT_THAT(error_of("a:\n  price: 1\n  gpu: H300\n"), HasSubstr("H200"));
  EXPECT_THAT(error_of("a:\n  price: 1\n  gqu: H200\n"), HasSubstr("gqu"));
  EXPECT_THAT(error_of("a:\n  gpu: H200\n"), HasSubstr("price"));
  EXPECT_THAT(error_of("a:\n  price: 1\n"), HasSubstr("gpu or cores"));
  EXPECT_THAT(error_of("a:\n  price: 1\n  gpu: T4\n  cores: 4\n"), HasSubstr("gpu or cores"));
  EXPECT_THAT(error_of("a:\n  price: 1\n  gpu: T4\n  machines: 2\n"), HasSubstr("link"));
  EXPECT_THAT(error_of("a: 1\n"), HasSubstr("offer 'a'"));
  EXPECT_THAT(error_of("\n"), HasSubstr("offers"));
}

TEST(Offers, TheExampleCanBeRead) {
  EXPECT_EQ(parse_offers(read_file(REIGEN_TESTS "/../recipes/offers.yaml"), "offers.yaml").size(),
            5);
}

TEST_F(BaseJob, OnAMeasuredGpuTheMeasuredTimeIsPredicted) {
  const RankedOffer r = predict_offer({.name = "x", .price = 3, .gpu = "H200"}, job_);
  EXPECT_NEAR(r.step.likely, 0.0192, 1e-6);
  EXPECT_NEAR(r.hours.likely, 1, 1e-4);
  EXPECT_NEAR(r.cost.likely, 3, 1e-3);
  EXPECT_LT(r.step.low, 0.0192);
  EXPECT_GT(r.step.high, 0.0192);
  EXPECT_LT(r.step.high / r.step.low, 1.25);
  EXPECT_THAT(r.estimated, IsEmpty());
}

TEST_F(BaseJob, MuonHasAReferenceOfItsOwn) {
  job_.muon = true;
  EXPECT_NEAR(predict_offer({.name = "x", .gpu = "H200"}, job_).step.likely, 0.021, 1e-6);
}

TEST_F(BaseJob, AnotherGpuIsAnEstimateBetweenComputeAndMemory) {
  const RankedOffer r = predict_offer({.name = "x", .gpu = "A100"}, job_);
  // 989 / 312 = 3.2 times as long where products limit a step, 4800 / 2039 = 2.4 where memory does.
  EXPECT_GT(r.step.likely, 2.4 * 0.0186);
  EXPECT_LT(r.step.likely, 3.2 * 0.0192);
  EXPECT_LT(r.step.low, 2.0 * 0.0192);
  EXPECT_GT(r.step.high, 3.8 * 0.0186);
  EXPECT_THAT(r.estimated, Contains(HasSubstr("A100")));
}

TEST_F(BaseJob, ASmallStepIsNotPredictedInProportion) {
  const double whole = predict_offer({.name = "x", .gpu = "H200"}, job_).step.likely;
  job_.flops /= 100;
  const RankedOffer r = predict_offer({.name = "x", .gpu = "H200"}, job_);
  EXPECT_GT(r.step.likely, 2 * whole / 100);
  EXPECT_GT(r.step.high, 1.3 * r.step.low);
  EXPECT_THAT(r.estimated, Contains("steps of this size"));
}

TEST_F(BaseJob, ASlowLinkMakesMoreMachinesSlower) {
  const Offer one = {.name = "one", .price = 1, .gpu = "H200"};
  const Offer slow = {.name = "s", .price = 1, .machines = 2, .gpu = "H200", .link = 12.5e6};
  const Offer fast = {.name = "f", .price = 1, .machines = 2, .gpu = "H200", .link = 50e9};
  const std::vector<RankedOffer> ranked = rank_offers({slow, fast, one}, job_);
  EXPECT_EQ(ranked[0].offer.name, "one");
  EXPECT_EQ(ranked[1].offer.name, "f");
  EXPECT_LT(ranked[1].hours.likely, ranked[0].hours.likely);
  // 244 MB of gradient, sent once by each of two machines, at 90% of 100 Mbit/s.
  EXPECT_NEAR(ranked[2].step.likely, 244e6 / 11.25e6, 1);
  job_.compress = {.method = CompressMethod::kAuto};
  const RankedOffer compressed = predict_offer(slow, job_);
  EXPECT_NE(compressed.compress.method, CompressMethod::kNone);
  EXPECT_LT(compressed.step.likely, ranked[2].step.likely / 5);
}

TEST_F(BaseJob, CoresAreAnEstimateFromTheMeasuredProcessor) {
  const RankedOffer few = predict_offer({.name = "x", .price = 1, .cores = 4}, job_);
  const RankedOffer many = predict_offer({.name = "x", .price = 1, .cores = 64}, job_);
  EXPECT_LT(many.step.likely, few.step.likely / 8);
  EXPECT_GT(many.step.likely, few.step.likely / 16);
  EXPECT_FALSE(few.estimated.empty());
  EXPECT_GT(few.step.low, 100 * 0.0192);  // a H200 is that much faster
}

TEST_F(BaseJob, TheTextNamesEstimatesAndOverlaps) {
  const std::string text = to_text(rank_offers(
      {{.name = "a", .price = 3, .gpu = "H200"}, {.name = "b", .price = 2, .gpu = "H100"}}, job_));
  EXPECT_THAT(text, HasSubstr("a: measured on NVIDIA H200"));
  EXPECT_THAT(text, HasSubstr("b: an estimate"));
  EXPECT_THAT(text, HasSubstr("intervals overlap"));
}

}  // namespace
}  // namespace reigen
